/** The functions by which receivers verify a delivery: complete, without dependencies, and run by a test in their languages. */

/** A language with its snippet. */
export interface VerificationSnippet {
  readonly language: string
  readonly code: string
}

const typescript = `import { createHmac, timingSafeEqual } from "node:crypto"

/** body: the raw bytes, before they are parsed. header: X-Svc-Signature. */
export const isSigned = (body: Buffer, header: string, secret: string): boolean => {
  const time = /^t=(\\d+)/.exec(header)?.[1] ?? ""
  if (!(Math.abs(Date.now() / 1000 - Number(time)) <= 300)) return false
  const expected = createHmac("sha256", secret).update(\`\${time}.\`).update(body).digest()
  return [...header.matchAll(/,v1=([0-9a-f]{64})/g)].some(([, hex = ""]) =>
    timingSafeEqual(Buffer.from(hex, "hex"), expected)
  )
}
`

const python = `import hashlib, hmac, re, time

def is_signed(body: bytes, header: str, secret: str) -> bool:
    """body: the raw bytes, before they are parsed. header: X-Svc-Signature."""
    match = re.match(r"t=(\\d+)", header)
    if match is None or abs(time.time() - int(match[1])) > 300:
        return False
    signed = match[1].encode() + b"." + body
    expected = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    return any(
        hmac.compare_digest(given, expected)
        for given in re.findall(r",v1=([0-9a-f]{64})", header)
    )
`

const go = `package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"time"
)

// IsSigned verifies the raw body, before it is parsed. header is X-Svc-Signature.
func IsSigned(body []byte, header, secret string) bool {
	parts := strings.Split(header, ",")
	t, found := strings.CutPrefix(parts[0], "t=")
	seconds, err := strconv.ParseInt(t, 10, 64)
	if !found || err != nil || math.Abs(float64(time.Now().Unix()-seconds)) > 300 {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(t + "."))
	mac.Write(body)
	expected := mac.Sum(nil)
	for _, part := range parts[1:] {
		digits, isVersion1 := strings.CutPrefix(part, "v1=")
		given, err := hex.DecodeString(digits)
		if isVersion1 && err == nil && hmac.Equal(given, expected) {
			return true
		}
	}
	return false
}
`

const java = `import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.HexFormat;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public final class Webhook {
  private static final Pattern TIME = Pattern.compile("^t=(\\\\d{1,12})");
  private static final Pattern DIGEST = Pattern.compile(",v1=([0-9a-f]{64})");

  /** body: the raw bytes, before they are parsed. header: X-Svc-Signature. */
  public static boolean isSigned(byte[] body, String header, String secret)
      throws GeneralSecurityException {
    var time = TIME.matcher(header);
    if (!time.find()
        || Math.abs(Instant.now().getEpochSecond() - Long.parseLong(time.group(1))) > 300) {
      return false;
    }
    var mac = Mac.getInstance("HmacSHA256");
    mac.init(new SecretKeySpec(secret.getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
    mac.update((time.group(1) + ".").getBytes(StandardCharsets.UTF_8));
    var expected = mac.doFinal(body);
    return DIGEST
        .matcher(header)
        .results()
        .anyMatch(
            found -> MessageDigest.isEqual(HexFormat.of().parseHex(found.group(1)), expected));
  }
}
`

/** The snippets, by the name of their language. */
export const verificationSnippets = {
  typescript: { language: "TypeScript", code: typescript },
  python: { language: "Python", code: python },
  go: { language: "Go", code: go },
  java: { language: "Java", code: java }
} as const satisfies Readonly<Record<string, VerificationSnippet>>
