/** Mutants of notifications: the interpretation of a receiver's response, and the verification of email addresses. */
import type { ListedMutant } from "../list.ts"

const addresses = "server/identity/EmailAddresses.ts"
const addressRows = "server/identity/EmailAddresses/rows.ts"
const mail = "server/notifications/Email/MailChannel.ts"
const page = "server/http/EmailConfirmation.ts"
const verificationTests = ["server/notifications/Email/verification.test.ts"]

export const notifications: ReadonlyArray<ListedMutant> = [
  {
    file: "server/notifications/Notifications/WebhookChannel.ts",
    from: "if (status === 410) return",
    to: "if (status === 410 || status === 404) return",
    tests: ["server/notifications/Notifications/WebhookChannel.test.ts", "server/delivery/Delivery.test.ts"]
  },
  {
    file: mail,
    from: 'if (!verified) return "the address is not verified"',
    to: "",
    tests: verificationTests
  },
  {
    file: addressRows,
    from: "if (used.length === 0) return false",
    to: "return true",
    tests: verificationTests
  },
  {
    file: addressRows,
    from: "AND link.expires_at > ${toDate(now)}::timestamptz",
    to: "",
    tests: verificationTests
  },
  {
    file: addressRows,
    from: "WHERE email_addresses.org_id = api_keys.org_id AND email_addresses.address",
    to: "WHERE email_addresses.address",
    tests: verificationTests
  },
  {
    file: addressRows,
    from: "old.nth >= ${MAX_LINKS}::int",
    to: "old.nth >= 1",
    tests: verificationTests
  },
  {
    file: addresses,
    from: "if (!taken.allowed) {",
    to: "if (!taken) {",
    tests: verificationTests
  },
  {
    file: addresses,
    from: "if (waitMillis > 0) {",
    to: "if (waitMillis > 1e12) {",
    tests: verificationTests
  },
  {
    file: "domain/identity/VerificationLink.ts",
    from: 'createHash("sha256").update(Redacted.value(token)).digest()',
    to: 'Buffer.from(Redacted.value(token), "base64url")',
    tests: verificationTests
  },
  {
    file: "server/identity/mailbox.ts",
    from: "left(api_keys.email, strpos(api_keys.email, '@')) ||",
    to: "lower(left(api_keys.email, strpos(api_keys.email, '@'))) ||",
    tests: verificationTests
  },
  {
    file: "server/identity/ApiKeys/Retention.ts",
    from: "AND (org_id, key_id) NOT IN (SELECT org_id, key_id FROM ended)",
    to: "AND false",
    tests: verificationTests
  },
  {
    file: page,
    from: "(isConfirmed ? confirmed : unusable)",
    to: "confirmed",
    tests: verificationTests
  }
]
