import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerExtensionsValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;

/** Takes the tokens of which the server at the option `asks` says whose they are and when they end. */
public final class AskedTokens implements AuthenticateCallbackHandler {
    private final HttpClient client = HttpClient.newHttpClient();
    private URI asks;

    @Override
    public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
        asks = URI.create(String.valueOf(entries.get(0).getOptions().get("asks")));
    }

    @Override
    public void handle(Callback[] callbacks) {
        for (Callback callback : callbacks) {
            if (callback instanceof OAuthBearerValidatorCallback) {
                validate((OAuthBearerValidatorCallback) callback);
            } else if (callback instanceof OAuthBearerExtensionsValidatorCallback) {
                OAuthBearerExtensionsValidatorCallback extensions = (OAuthBearerExtensionsValidatorCallback) callback;
                extensions.inputExtensions().map().keySet().forEach(extensions::valid);
            }
        }
    }

    private void validate(OAuthBearerValidatorCallback callback) {
        String value = callback.tokenValue();
        try {
            HttpRequest request = HttpRequest.newBuilder(asks).POST(HttpRequest.BodyPublishers.ofString(value)).build();
            HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
            if (answer.statusCode() != 200) {
                callback.error("invalid_token", null, null);
                return;
            }
            String[] said = answer.body().split(" ");
            callback.token(new Token(value, said[0], Long.parseLong(said[1])));
        } catch (Exception error) {
            callback.error("invalid_token", null, null);
        }
    }

    @Override
    public void close() {}

    private record Token(String value, String principalName, long lifetimeMs) implements OAuthBearerToken {
        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public Long startTimeMs() {
            return null;
        }
    }
}
