import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.time.Duration;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple5;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.windowing.WindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * Counts the rows of minutes and adds up their offsets, by key, for each number of keys that comes on a line, which
 * has a topic of its own. It answers with the seconds from the first row to the end of the job.
 *
 * <p>Arguments: the broker, the name of topics without the number of keys, and the parallelism.
 */
public class Windows {
    private static volatile long begun;

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            begun = 0;
            run(arguments[0], arguments[1], Integer.parseInt(arguments[2]), Long.parseLong(line));
            System.out.println("seconds " + (System.nanoTime() - begun) / 1e9);
        }
    }

    private static void run(String broker, String topic, int parallelism, long keys) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(parallelism);
        KafkaSource<Tuple2<Long, Long>> source =
                KafkaSource.<Tuple2<Long, Long>>builder()
                        .setBootstrapServers(broker)
                        .setTopics(topic + keys)
                        .setStartingOffsets(OffsetsInitializer.earliest())
                        .setBounded(OffsetsInitializer.latest())
                        .setDeserializer(new KeyAndOffset())
                        .build();
        environment
                .fromSource(source, WatermarkStrategy.forMonotonousTimestamps(), "rows")
                .keyBy(row -> row.f0, Types.LONG)
                .window(TumblingEventTimeWindows.of(Duration.ofMinutes(1)))
                .allowedLateness(Duration.ofMinutes(1))
                .aggregate(new CountAndSum(), new Named())
                .sinkTo(new DiscardingSink<>());
        environment.execute();
    }

    /** The key and the offset of a record. */
    private static class KeyAndOffset implements KafkaRecordDeserializationSchema<Tuple2<Long, Long>> {
        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<Tuple2<Long, Long>> out) {
            if (begun == 0) {
                begun = System.nanoTime();
            }
            out.collect(Tuple2.of(ByteBuffer.wrap(record.key()).getLong(), record.offset()));
        }

        @Override
        public TypeInformation<Tuple2<Long, Long>> getProducedType() {
            return Types.TUPLE(Types.LONG, Types.LONG);
        }
    }

    private static class CountAndSum
            implements AggregateFunction<Tuple2<Long, Long>, Tuple2<Long, Long>, Tuple2<Long, Long>> {
        @Override
        public Tuple2<Long, Long> createAccumulator() {
            return Tuple2.of(0L, 0L);
        }

        @Override
        public Tuple2<Long, Long> add(Tuple2<Long, Long> row, Tuple2<Long, Long> held) {
            held.f0 += 1;
            held.f1 += row.f1;
            return held;
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

    private static class Named
            implements WindowFunction<Tuple2<Long, Long>, Tuple5<Long, Long, Long, Long, Long>, Long, TimeWindow> {
        @Override
        public void apply(
                Long key,
                TimeWindow window,
                Iterable<Tuple2<Long, Long>> results,
                Collector<Tuple5<Long, Long, Long, Long, Long>> out) {
            for (Tuple2<Long, Long> one : results) {
                out.collect(Tuple5.of(key, window.getStart(), window.getEnd(), one.f0, one.f1));
            }
        }
    }
}
