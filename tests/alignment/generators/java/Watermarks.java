package org.apache.flink.streaming.runtime.operators;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.time.Duration;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkOutputMultiplexer;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.streaming.runtime.io.PushingAsyncDataInput.DataOutput;
import org.apache.flink.streaming.runtime.streamrecord.LatencyMarker;
import org.apache.flink.streaming.runtime.streamrecord.RecordAttributes;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.streaming.util.OneInputStreamOperatorTestHarness;

/** Reads traces, one JSON object a line, and prints what Flink's own multiplexer or operator makes of each. */
public class Watermarks {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        PrintWriter out = new PrintWriter(System.out);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode trace = JSON.readTree(line);
            ArrayNode answer = trace.has("inputs") ? multiplexer(trace) : operator(trace);
            out.println(JSON.writeValueAsString(answer));
        }
        out.flush();
    }

    /** Returns for each step the combined watermark. A step with null removes the split. */
    private static ArrayNode multiplexer(JsonNode trace) throws Exception {
        Combined combined = new Combined();
        WatermarkOutputMultiplexer multiplexer = new WatermarkOutputMultiplexer(combined);
        for (int split = 0; split < trace.get("inputs").asInt(); split++) {
            multiplexer.registerNewOutput(String.valueOf(split));
        }
        ArrayNode answer = JSON.createArrayNode();
        for (JsonNode step : trace.get("steps")) {
            String split = step.get(0).asText();
            if (step.get(1).isNull()) {
                multiplexer.unregisterOutput(split);
                multiplexer.registerNewOutput(split);
            } else if (!step.get(1).isBoolean()) {
                multiplexer.getDeferredOutput(split).emitWatermark(new Watermark(step.get(1).asLong()));
            } else if (step.get(1).asBoolean()) {
                multiplexer.getDeferredOutput(split).markActive();
            } else {
                multiplexer.getDeferredOutput(split).markIdle();
            }
            multiplexer.onPeriodicEmit();
            answer.add(JSON.createArrayNode().add(combined.watermark).add(true));
        }
        return answer;
    }

    private static class Combined implements WatermarkOutput {
        private long watermark = Long.MIN_VALUE;

        @Override
        public void emitWatermark(Watermark emitted) {
            watermark = emitted.getTimestamp();
        }

        @Override
        public void markIdle() {}

        @Override
        public void markActive() {}
    }

    /** Returns for each step the watermark and the status that the operator has emitted. */
    private static ArrayNode operator(JsonNode trace) throws Exception {
        WatermarkStrategy<Long> strategy =
                trace.has("disorder")
                        ? WatermarkStrategy.forBoundedOutOfOrderness(Duration.ofMillis(trace.get("disorder").asLong()))
                        : WatermarkStrategy.forGenerator(context -> new Steps());
        OneInputStreamOperatorTestHarness<Long, Long> harness =
                new OneInputStreamOperatorTestHarness<>(
                        new TimestampsAndWatermarksOperatorFactory<>(
                                strategy.withTimestampAssigner((event, time) -> event), true));
        harness.getExecutionConfig().setAutoWatermarkInterval(10);
        harness.open();
        Said said = new Said();
        ArrayNode answer = JSON.createArrayNode();
        long now = 0;
        for (JsonNode step : trace.get("steps")) {
            if (step.isNull()) {
                now += 10;
                harness.setProcessingTime(now);
            } else {
                harness.processElement(new StreamRecord<>(step.asLong()));
            }
            for (Object emitted : harness.getOutput()) {
                if (emitted instanceof org.apache.flink.streaming.api.watermark.Watermark) {
                    said.emitWatermark((org.apache.flink.streaming.api.watermark.Watermark) emitted);
                } else if (emitted instanceof WatermarkStatus) {
                    said.emitWatermarkStatus((WatermarkStatus) emitted);
                }
            }
            harness.getOutput().clear();
            answer.add(JSON.createArrayNode().add(said.watermark).add(said.active));
        }
        harness.close();
        return answer;
    }

    /** By its last digit an event is a watermark (0), an idle mark (1), an active mark (2), or nothing. */
    private static class Steps implements WatermarkGenerator<Long> {
        @Override
        public void onEvent(Long event, long time, WatermarkOutput output) {
            switch ((int) Math.floorMod(event, 10L)) {
                case 0 -> output.emitWatermark(new Watermark(event));
                case 1 -> output.markIdle();
                case 2 -> output.markActive();
                default -> {}
            }
        }

        @Override
        public void onPeriodicEmit(WatermarkOutput output) {}
    }

    private static class Said implements DataOutput<Object> {
        private long watermark = Long.MIN_VALUE;
        private boolean active = true;

        @Override
        public void emitWatermark(org.apache.flink.streaming.api.watermark.Watermark emitted) {
            watermark = emitted.getTimestamp();
        }

        @Override
        public void emitWatermarkStatus(WatermarkStatus status) {
            active = status.isActive();
        }

        @Override
        public void emitRecord(StreamRecord<Object> record) {}

        @Override
        public void emitLatencyMarker(LatencyMarker marker) {}

        @Override
        public void emitRecordAttributes(RecordAttributes attributes) {}

        @Override
        public void emitWatermark(org.apache.flink.runtime.event.WatermarkEvent event) {}
    }
}
