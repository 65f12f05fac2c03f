import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.tuple.Tuple5;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.DeserializationFeature;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.windowing.WindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * Counts the rows of minutes and adds up a number, by key, for each topic's suffix that comes on a line. It answers
 * with the seconds from the first row to the end of the job.
 *
 * <p>Arguments: the broker, the name of topics without the suffix, the parallelism, and {@code raw} or {@code json}:
 * keys and offsets of records by their timestamps, or orders in JSON.
 */
public class Windows {
    private static volatile long begun;

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            begun = 0;
            String topic = arguments[1] + line;
            int parallelism = Integer.parseInt(arguments[2]);
            if (arguments[3].equals("json")) {
                WatermarkStrategy<Tuple3<String, Double, Long>> times = WatermarkStrategy.forMonotonousTimestamps();
                times = times.withTimestampAssigner((order, timestamp) -> order.f2);
                run(arguments[0], topic, parallelism, new OfJson(), times, Types.STRING);
            } else {
                run(arguments[0], topic, parallelism, new KeyAndOffset(), WatermarkStrategy.forMonotonousTimestamps(),
                        Types.LONG);
            }
            System.out.println("seconds " + (System.nanoTime() - begun) / 1e9);
        }
    }

    /** Rows have the key in their first field, and the number in their second one. */
    private static <T extends Tuple, K> void run(
            String broker,
            String topic,
            int parallelism,
            Rows<T> rows,
            WatermarkStrategy<T> times,
            TypeInformation<K> key)
            throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(parallelism);
        KafkaSource<T> source =
                KafkaSource.<T>builder()
                        .setBootstrapServers(broker)
                        .setTopics(topic)
                        .setStartingOffsets(OffsetsInitializer.earliest())
                        .setBounded(OffsetsInitializer.latest())
                        .setDeserializer(rows)
                        .build();
        environment
                .fromSource(source, times, "rows")
                .keyBy((KeySelector<T, K>) row -> row.getField(0), key)
                .window(TumblingEventTimeWindows.of(Duration.ofMinutes(1)))
                .allowedLateness(Duration.ofMinutes(1))
                .aggregate(
                        new CountAndSum<T>(),
                        new Named<K>(),
                        Types.TUPLE(Types.LONG, Types.DOUBLE),
                        Types.TUPLE(key, Types.LONG, Types.LONG, Types.LONG, Types.DOUBLE))
                .sinkTo(new DiscardingSink<>());
        environment.execute();
    }

    private abstract static class Rows<T> implements KafkaRecordDeserializationSchema<T> {
        abstract T row(ConsumerRecord<byte[], byte[]> record) throws IOException;

        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<T> out) throws IOException {
            if (begun == 0) {
                begun = System.nanoTime();
            }
            out.collect(row(record));
        }
    }

    private static class KeyAndOffset extends Rows<Tuple2<Long, Long>> {
        @Override
        Tuple2<Long, Long> row(ConsumerRecord<byte[], byte[]> record) {
            return Tuple2.of(ByteBuffer.wrap(record.key()).getLong(), record.offset());
        }

        @Override
        public TypeInformation<Tuple2<Long, Long>> getProducedType() {
            return Types.TUPLE(Types.LONG, Types.LONG);
        }
    }

    /** The fields of an order that are read. */
    public static class Order {
        public String shop;
        public double amount;
        public String at;
    }

    /** Shop, amount and time of an order. */
    private static class OfJson extends Rows<Tuple3<String, Double, Long>> {
        private transient ObjectMapper mapper;

        @Override
        Tuple3<String, Double, Long> row(ConsumerRecord<byte[], byte[]> record) throws IOException {
            if (mapper == null) {
                mapper = new ObjectMapper().configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
            }
            Order order = mapper.readValue(record.value(), Order.class);
            return Tuple3.of(order.shop, order.amount, Instant.parse(order.at).toEpochMilli());
        }

        @Override
        public TypeInformation<Tuple3<String, Double, Long>> getProducedType() {
            return Types.TUPLE(Types.STRING, Types.DOUBLE, Types.LONG);
        }
    }

    private static class CountAndSum<T extends Tuple>
            implements AggregateFunction<T, Tuple2<Long, Double>, Tuple2<Long, Double>> {
        @Override
        public Tuple2<Long, Double> createAccumulator() {
            return Tuple2.of(0L, 0.0);
        }

        @Override
        public Tuple2<Long, Double> add(T row, Tuple2<Long, Double> held) {
            held.f0 += 1;
            held.f1 += row.<Number>getField(1).doubleValue();
            return held;
        }

        @Override
        public Tuple2<Long, Double> getResult(Tuple2<Long, Double> held) {
            return held;
        }

        @Override
        public Tuple2<Long, Double> merge(Tuple2<Long, Double> one, Tuple2<Long, Double> other) {
            return Tuple2.of(one.f0 + other.f0, one.f1 + other.f1);
        }
    }

    private static class Named<K>
            implements WindowFunction<Tuple2<Long, Double>, Tuple5<K, Long, Long, Long, Double>, K, TimeWindow> {
        @Override
        public void apply(
                K key,
                TimeWindow window,
                Iterable<Tuple2<Long, Double>> results,
                Collector<Tuple5<K, Long, Long, Long, Double>> out) {
            for (Tuple2<Long, Double> one : results) {
                out.collect(Tuple5.of(key, window.getStart(), window.getEnd(), one.f0, one.f1));
            }
        }
    }
}
