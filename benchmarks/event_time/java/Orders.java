import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.time.Instant;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.DeserializationFeature;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * Counts the orders of minutes, which are JSON, and adds up their amounts, by shop, for each topic's suffix that comes
 * on a line. It answers with the seconds from the first row to the end of the job.
 *
 * <p>Arguments: the broker, the name of topics without the suffix, and the parallelism.
 */
public class Orders {
    private static volatile long begun;

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            begun = 0;
            run(arguments[0], arguments[1] + line, Integer.parseInt(arguments[2]));
            System.out.println("seconds " + (System.nanoTime() - begun) / 1e9);
        }
    }

    private static void run(String broker, String topic, int parallelism) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(parallelism);
        KafkaSource<Tuple3<String, Double, Long>> source =
                KafkaSource.<Tuple3<String, Double, Long>>builder()
                        .setBootstrapServers(broker)
                        .setTopics(topic)
                        .setStartingOffsets(OffsetsInitializer.earliest())
                        .setBounded(OffsetsInitializer.latest())
                        .setDeserializer(new FromJson())
                        .build();
        environment
                .fromSource(
                        source,
                        WatermarkStrategy.<Tuple3<String, Double, Long>>forMonotonousTimestamps()
                                .withTimestampAssigner((order, timestamp) -> order.f2),
                        "orders")
                .keyBy(order -> order.f0, Types.STRING)
                .window(TumblingEventTimeWindows.of(Duration.ofMinutes(1)))
                .allowedLateness(Duration.ofMinutes(1))
                .aggregate(new CountAndSum())
                .sinkTo(new DiscardingSink<>());
        environment.execute();
    }

    /** The fields of an order that are read. */
    public static class Order {
        public String shop;
        public double amount;
        public String at;
    }

    /** Shop, amount and time of an order. */
    private static class FromJson implements KafkaRecordDeserializationSchema<Tuple3<String, Double, Long>> {
        private transient ObjectMapper mapper;

        @Override
        public void deserialize(
                ConsumerRecord<byte[], byte[]> record, Collector<Tuple3<String, Double, Long>> out) throws IOException {
            if (begun == 0) {
                begun = System.nanoTime();
            }
            if (mapper == null) {
                mapper = new ObjectMapper().configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
            }
            Order order = mapper.readValue(record.value(), Order.class);
            out.collect(Tuple3.of(order.shop, order.amount, Instant.parse(order.at).toEpochMilli()));
        }

        @Override
        public TypeInformation<Tuple3<String, Double, Long>> getProducedType() {
            return Types.TUPLE(Types.STRING, Types.DOUBLE, Types.LONG);
        }
    }

    private static class CountAndSum
            implements AggregateFunction<Tuple3<String, Double, Long>, Tuple2<Long, Double>, Tuple2<Long, Double>> {
        @Override
        public Tuple2<Long, Double> createAccumulator() {
            return Tuple2.of(0L, 0.0);
        }

        @Override
        public Tuple2<Long, Double> add(Tuple3<String, Double, Long> order, Tuple2<Long, Double> held) {
            held.f0 += 1;
            held.f1 += order.f1;
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
}
