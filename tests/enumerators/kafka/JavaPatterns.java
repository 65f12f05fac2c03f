import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.regex.Pattern;

/** Reads names in one line, then lines of a pattern in Base64; prints which of the names each matches whole. */
public class JavaPatterns {
    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        String[] names = lines.readLine().split(" ");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(matching(new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8), names));
        }
    }

    private static String matching(String text, String[] names) {
        try {
            var pattern = Pattern.compile(text);
            var found = new StringBuilder("matches");
            for (String name : names) {
                if (pattern.matcher(name).matches()) {
                    found.append(" ").append(name);
                }
            }
            return found.toString();
        } catch (IllegalArgumentException refused) {
            return "refused";
        }
    }
}
