import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;

/** Prints the names of all client properties, then what Kafka reads in each sasl.jaas.config of a file. */
public class OfJava {
    public static void main(String[] arguments) throws Exception {
        var names = new TreeSet<String>(ConsumerConfig.configNames());
        names.addAll(ProducerConfig.configNames());
        names.addAll(AdminClientConfig.configNames());
        System.out.println(String.join(" ", names));
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            System.out.println(read(new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8)));
        }
    }

    private static String read(String jaas) {
        try {
            var context = JaasContext.loadClientContext(Map.of("sasl.jaas.config", new Password(jaas)));
            var module = context.configurationEntries().get(0);
            var read = new StringBuilder(encoded(module.getLoginModuleName()));
            new TreeMap<>(module.getOptions())
                .forEach((name, value) -> read.append(" ").append(encoded(name)).append(" ").append(encoded((String) value)));
            return read.toString();
        } catch (Exception refused) {
            return "refused";
        }
    }

    private static String encoded(String text) {
        return "." + Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
