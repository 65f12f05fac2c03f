package org.apache.flink.streaming.runtime.operators.windowing;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.serialization.SerializerConfigImpl;
import org.apache.flink.api.common.state.AggregatingStateDescriptor;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.api.windowing.assigners.*;
import org.apache.flink.streaming.api.windowing.evictors.*;
import org.apache.flink.streaming.api.windowing.triggers.*;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.api.windowing.windows.Window;
import org.apache.flink.streaming.runtime.operators.windowing.functions.InternalIterableProcessWindowFunction;
import org.apache.flink.streaming.runtime.operators.windowing.functions.InternalSingleValueProcessWindowFunction;
import org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.KeyedOneInputStreamOperatorTestHarness;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;
import org.apache.flink.util.function.BiConsumerWithException;

/**
 * Reads traces, one JSON object a line, and prints for each what Flink's own WindowOperator made of it.
 *
 * <p>It is in the operator's package because it looks at the timers that are left.
 */
@SuppressWarnings({"unchecked", "rawtypes"})
public class Traces {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final OutputTag<Tuple4<String, Long, Long, Long>> LATE =
            new OutputTag<>("late", element());

    /** Key, number, value, gap. */
    private static TypeInformation<Tuple4<String, Long, Long, Long>> element() {
        return Types.TUPLE(Types.STRING, Types.LONG, Types.LONG, Types.LONG);
    }

    /** The timer that is firing; null while an element is processed. */
    private static Long timer;

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintWriter out = new PrintWriter(System.out);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                run(JSON.readTree(line), answer);
            } catch (Exception error) {
                answer.removeAll();
                answer.put("error", String.valueOf(error));
            }
            out.println(answer);
            out.flush();
        }
    }

    private static void run(JsonNode trace, ObjectNode answer) throws Exception {
        WindowOperator operator = operator(trace);
        ArrayNode fired = answer.putArray("fired");
        ArrayNode late = answer.putArray("late");
        try (KeyedOneInputStreamOperatorTestHarness<String, Tuple4<String, Long, Long, Long>, String> harness =
                new KeyedOneInputStreamOperatorTestHarness<>(operator, new Key(), Types.STRING)) {
            harness.open();
            int epoch = 0;
            for (JsonNode step : trace.get("steps")) {
                timer = null;
                switch (step.get(0).asText()) {
                    case "w":
                        epoch++;
                        harness.processWatermark(new Watermark(step.get(1).asLong()));
                        break;
                    case "p":
                        epoch++;
                        harness.setProcessingTime(step.get(1).asLong());
                        break;
                    default:
                        Tuple4<String, Long, Long, Long> element =
                                Tuple4.of(step.get(1).asText(), step.get(2).asLong(), step.get(3).asLong(), step.get(4).asLong());
                        harness.processElement(new StreamRecord<>(element, step.get(5).asLong()));
                }
                for (Object output : harness.getOutput()) {
                    if (output instanceof StreamRecord) {
                        ArrayNode row = (ArrayNode) JSON.readTree(((StreamRecord<String>) output).getValue());
                        row.insert(0, epoch);
                        fired.add(row);
                    }
                }
                harness.getOutput().clear();
                Collection<StreamRecord<Tuple4<String, Long, Long, Long>>> side = harness.getSideOutput(LATE);
                if (side != null) {
                    for (StreamRecord<Tuple4<String, Long, Long, Long>> record : side) {
                        late.addArray().add(epoch).add(record.getValue().f0).add(record.getValue().f1);
                    }
                    side.clear();
                }
            }
            InternalTimerService<Window> timers = operator.internalTimerService;
            timers.forEachEventTimeTimer(lister(operator, answer.putArray("event")));
            timers.forEachProcessingTimeTimer(lister(operator, answer.putArray("processing")));
        }
    }

    private static BiConsumerWithException<Window, Long, Exception> lister(WindowOperator operator, ArrayNode list) {
        return (window, time) -> bounds(list.addArray().add((String) operator.getCurrentKey()).add(time), window);
    }

    private static ArrayNode bounds(ArrayNode row, Window window) {
        if (window instanceof TimeWindow) {
            return row.add(((TimeWindow) window).getStart()).add(((TimeWindow) window).getEnd());
        }
        return row.addNull().addNull();
    }

    private static WindowOperator operator(JsonNode trace) {
        WindowAssigner assigner = assigner(trace.get("assigner"));
        Trigger trigger = trace.get("trigger").isNull() ? assigner.getDefaultTrigger() : trigger(trace.get("trigger"));
        trigger = new Watched(trigger);
        long lateness = trace.get("lateness").asLong();
        TypeSerializer windows = assigner.getWindowSerializer(null);
        TypeSerializer keys = Types.STRING.createSerializer(new SerializerConfigImpl());
        TypeSerializer elements = element().createSerializer(new SerializerConfigImpl());
        if (!trace.get("evictor").isNull()) {
            ListStateDescriptor state = new ListStateDescriptor("contents", new StreamElementSerializer(elements));
            return new EvictingWindowOperator(assigner, windows, new Key(), keys, state,
                    new InternalIterableProcessWindowFunction(new Rows()), trigger, evictor(trace.get("evictor")), lateness, LATE);
        }
        if (trace.get("function").asText().equals("aggregate")) {
            AggregatingStateDescriptor state =
                    new AggregatingStateDescriptor("contents", new CountAndSum(), Types.TUPLE(Types.LONG, Types.LONG).createSerializer(new SerializerConfigImpl()));
            return new WindowOperator(assigner, windows, new Key(), keys, state,
                    new InternalSingleValueProcessWindowFunction(new Aggregated()), trigger, lateness, LATE);
        }
        return new WindowOperator(assigner, windows, new Key(), keys, new ListStateDescriptor("contents", elements),
                new InternalIterableProcessWindowFunction(new Rows()), trigger, lateness, LATE);
    }

    private static Duration ms(JsonNode parts, int place) {
        return Duration.ofMillis(parts.get(place).asLong());
    }

    private static WindowAssigner assigner(JsonNode parts) {
        switch (parts.get(0).asText()) {
            case "tumbling-event":
                return TumblingEventTimeWindows.of(ms(parts, 1), ms(parts, 2));
            case "tumbling-processing":
                return TumblingProcessingTimeWindows.of(ms(parts, 1), ms(parts, 2));
            case "sliding-event":
                return SlidingEventTimeWindows.of(ms(parts, 1), ms(parts, 2), ms(parts, 3));
            case "sliding-processing":
                return SlidingProcessingTimeWindows.of(ms(parts, 1), ms(parts, 2), ms(parts, 3));
            case "session-event":
                return EventTimeSessionWindows.withGap(ms(parts, 1));
            case "session-processing":
                return ProcessingTimeSessionWindows.withGap(ms(parts, 1));
            case "dynamic-event":
                return DynamicEventTimeSessionWindows.withDynamicGap(new Gap());
            case "dynamic-processing":
                return DynamicProcessingTimeSessionWindows.withDynamicGap(new Gap());
            default:
                return GlobalWindows.create();
        }
    }

    private static Trigger trigger(JsonNode parts) {
        switch (parts.get(0).asText()) {
            case "event":
                return EventTimeTrigger.create();
            case "processing":
                return ProcessingTimeTrigger.create();
            case "count":
                return CountTrigger.of(parts.get(1).asLong());
            case "delta":
                return DeltaTrigger.of(parts.get(1).asDouble(), Traces::distance, element().createSerializer(new SerializerConfigImpl()));
            case "continuous-event":
                return ContinuousEventTimeTrigger.of(ms(parts, 1));
            case "continuous-processing":
                return ContinuousProcessingTimeTrigger.of(ms(parts, 1));
            case "purging":
                return PurgingTrigger.of(trigger(parts.get(1)));
            case "timeout":
                return ProcessingTimeoutTrigger.of(
                        trigger(parts.get(1)), ms(parts, 2), parts.get(3).asBoolean(), parts.get(4).asBoolean());
            case "end-of-stream":
                return GlobalWindows.createWithEndOfStreamTrigger().getDefaultTrigger();
            default:
                return GlobalWindows.create().getDefaultTrigger();
        }
    }

    private static Evictor evictor(JsonNode parts) {
        boolean after = parts.get(2).asBoolean();
        switch (parts.get(0).asText()) {
            case "count":
                return CountEvictor.of(parts.get(1).asLong(), after);
            case "delta":
                return DeltaEvictor.of(parts.get(1).asDouble(), Traces::distance, after);
            default:
                return TimeEvictor.of(ms(parts, 1), after);
        }
    }

    private static double distance(Tuple4<String, Long, Long, Long> last, Tuple4<String, Long, Long, Long> next) {
        return Math.abs(next.f2 - last.f2);
    }

    private static void emit(String key, Window window, long watermark, ArrayNode payload, Collector<String> out) {
        ArrayNode row = bounds(JSON.createArrayNode().add(key), window);
        row.add(timer).add(watermark).add(payload);
        out.collect(row.toString());
    }

    static class Key implements KeySelector<Tuple4<String, Long, Long, Long>, String> {
        @Override
        public String getKey(Tuple4<String, Long, Long, Long> element) {
            return element.f0;
        }
    }

    static class Gap implements SessionWindowTimeGapExtractor<Tuple4<String, Long, Long, Long>> {
        @Override
        public long extract(Tuple4<String, Long, Long, Long> element) {
            return element.f3;
        }
    }

    static class Rows extends ProcessWindowFunction<Tuple4<String, Long, Long, Long>, String, String, Window> {
        @Override
        public void process(String key, Context context, Iterable<Tuple4<String, Long, Long, Long>> elements, Collector<String> out) {
            ArrayNode numbers = JSON.createArrayNode();
            elements.forEach(element -> numbers.add(element.f1));
            emit(key, context.window(), context.currentWatermark(), numbers, out);
        }
    }

    static class Aggregated extends ProcessWindowFunction<Tuple2<Long, Long>, String, String, Window> {
        @Override
        public void process(String key, Context context, Iterable<Tuple2<Long, Long>> elements, Collector<String> out) {
            Tuple2<Long, Long> only = elements.iterator().next();
            emit(key, context.window(), context.currentWatermark(), JSON.createArrayNode().add(only.f0).add(only.f1), out);
        }
    }

    static class CountAndSum
            implements AggregateFunction<Tuple4<String, Long, Long, Long>, Tuple2<Long, Long>, Tuple2<Long, Long>> {
        @Override
        public Tuple2<Long, Long> createAccumulator() {
            return Tuple2.of(0L, 0L);
        }

        @Override
        public Tuple2<Long, Long> add(Tuple4<String, Long, Long, Long> element, Tuple2<Long, Long> held) {
            return Tuple2.of(held.f0 + 1, held.f1 + element.f1);
        }

        @Override
        public Tuple2<Long, Long> getResult(Tuple2<Long, Long> held) {
            return held;
        }

        @Override
        public Tuple2<Long, Long> merge(Tuple2<Long, Long> one, Tuple2<Long, Long> other) {
            return Tuple2.of(one.f0 + other.f0, one.f1 + other.f1);
        }
    }

    /** A trigger that is known to the results: they tell the timer that made them. */
    static class Watched extends Trigger<Object, Window> {
        private final Trigger<Object, Window> nested;

        Watched(Trigger<Object, Window> nested) {
            this.nested = nested;
        }

        @Override
        public TriggerResult onElement(Object element, long timestamp, Window window, TriggerContext context) throws Exception {
            return nested.onElement(element, timestamp, window, context);
        }

        @Override
        public TriggerResult onEventTime(long time, Window window, TriggerContext context) throws Exception {
            timer = time;
            return nested.onEventTime(time, window, context);
        }

        @Override
        public TriggerResult onProcessingTime(long time, Window window, TriggerContext context) throws Exception {
            timer = time;
            return nested.onProcessingTime(time, window, context);
        }

        @Override
        public boolean canMerge() {
            return nested.canMerge();
        }

        @Override
        public void onMerge(Window window, OnMergeContext context) throws Exception {
            nested.onMerge(window, context);
        }

        @Override
        public void clear(Window window, TriggerContext context) throws Exception {
            nested.clear(window, context);
        }
    }
}
