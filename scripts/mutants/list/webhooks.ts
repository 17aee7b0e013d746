/** Mutants of webhooks: who gets which event, how a receiver's response is interpreted, and signatures. */
import type { ListedMutant } from "../list.ts"

const channel = "server/notifications/Notifications/WebhookChannel.ts"
const endpoints = "server/notifications/Notifications.ts"
const unsealed = "server/notifications/Notifications/UnsealedEndpoints.ts"
const rows = "server/notifications/Notifications/rows.ts"
const challenge = "server/notifications/Notifications/sendChallenge.ts"
const receiver = "webhook/receiver.ts"
const verify = "webhook/verify.ts"

const channelTests = ["server/notifications/Notifications/WebhookChannel.test.ts"]
const rotationTests = ["server/notifications/Notifications/rotateSecret.test.ts"]
const deliveryTests = ["server/notifications/Notifications/EndpointDeliveries.test.ts"]
const endpointTests = ["server/notifications/Notifications.test.ts"]
const verificationTests = ["server/notifications/Notifications/verification.test.ts"]
const recentTests = ["server/notifications/Notifications/RecentEvents.test.ts"]
const receiverTests = ["webhook/handler.test.ts"]
const verifyTests = ["webhook/verify.test.ts"]

export const webhooks: ReadonlyArray<ListedMutant> = [
  {
    file: channel,
    from: "if (status >= 200 && status < 300) return",
    to: "if (status >= 200 && status < 400) return",
    tests: channelTests
  },
  {
    file: channel,
    from: "retryAfter: retryAfter === undefined ? null : retryAfterMillis(retryAfter, now)",
    to: "retryAfter: null",
    tests: channelTests
  },
  {
    file: channel,
    from: "|| version === null || active !== true",
    to: "|| version === null",
    tests: channelTests
  },
  { file: channel, from: "if (onlyVerified && !verified)", to: "if (false)", tests: verificationTests },
  {
    file: channel,
    from: "CASE WHEN p.previous_secret_until > ${currentTime(sql, storeClock)} THEN p.previous_secret END",
    to: "p.previous_secret",
    tests: rotationTests
  },
  {
    file: channel,
    from: "AND endpoint_id = ${endpoint_id} AND active RETURNING",
    to: "AND endpoint_id = ${endpoint_id} RETURNING",
    tests: channelTests
  },
  {
    file: unsealed,
    from: "cached === undefined || !equalSealed(cached.sealed, sealed)",
    to: "cached === undefined",
    tests: rotationTests
  },
  {
    file: unsealed,
    from: "&& equalBytes(a.previousSecret, b.previousSecret)",
    to: "",
    tests: rotationTests
  },
  {
    file: unsealed,
    from: "cached?.sealed.version === version && cached.sealed.previousSecret === null",
    to: "cached?.sealed.version === version",
    tests: channelTests
  },
  {
    file: "server/notifications/Notifications/RecentEvents.ts",
    from: "event.versions.delete(destination_id)",
    to: "",
    tests: recentTests
  },
  {
    file: "server/notifications/Notifications/RecentEvents.ts",
    from: "if (monotonicMillis(clock) - event.readAt > MAX_AGE_MILLIS) return undefined",
    to: "",
    tests: recentTests
  },
  {
    file: "server/notifications/Notifications/rotateSecret.ts",
    from: "AND p.previous_secret_until <= ${currentTime(sql, clock)}",
    to: "",
    tests: rotationTests
  },
  {
    file: rows,
    from: "AND endpoint_id = ${endpoint_id} FOR KEY SHARE",
    to: "AND endpoint_id = ${endpoint_id}",
    tests: deliveryTests
  },
  {
    file: rows,
    from: "AND endpoint_id = ${endpoint_id} FOR NO KEY UPDATE",
    to: "AND endpoint_id = ${endpoint_id}",
    tests: rotationTests
  },
  {
    file: rows,
    from: "${disabled} WHERE org_id = ${org_id} AND",
    to: "${disabled} WHERE",
    tests: endpointTests
  },
  {
    file: rows,
    from: "DELETE FROM notification_endpoints WHERE org_id = ${org_id} AND",
    to: "DELETE FROM notification_endpoints WHERE",
    tests: endpointTests
  },
  {
    file: rows,
    from: "SELECT 1 AS found FROM notification_endpoints WHERE org_id = ${org_id} AND",
    to: "SELECT 1 AS found FROM notification_endpoints WHERE",
    tests: endpointTests
  },
  {
    file: rows,
    from: "WHERE org_id = ${org_id} AND active ${onlyVerified",
    to: "WHERE org_id = ${org_id} ${onlyVerified",
    tests: endpointTests
  },
  {
    file: endpoints,
    from: "yield* organizations.lockForUpdate(org_id) if",
    to: "if",
    tests: endpointTests
  },
  { file: endpoints, from: "yield* delivery.discard(org_id, id)", to: "", tests: deliveryTests },
  {
    file: endpoints,
    from: "if (active === true) yield* delivery.endCooldown(principal.org_id, id)",
    to: "",
    tests: deliveryTests
  },
  {
    file: endpoints,
    from: "yield* admitTest(`${principal.org_id} ${id}`)",
    to: "yield* admitTest(principal.org_id)",
    tests: ["server/notifications/Notifications/limits.test.ts"]
  },
  { file: endpoints, from: "yield* admitChallenge(org_id)", to: "", tests: verificationTests },
  {
    file: challenge,
    from: "status < 200 || status > 299 ?",
    to: "false ?",
    tests: verificationTests
  },
  {
    file: challenge,
    from: "CASE WHEN previous_secret_until > ${currentTime(sql, clock)} THEN previous_secret END",
    to: "previous_secret",
    tests: [...verificationTests, ...rotationTests]
  },
  {
    file: "domain/delivery/EndpointChallenge.ts",
    from: "(answer) => answer.challenge === challenge",
    to: "() => true",
    tests: verificationTests
  },
  {
    file: "domain/delivery/WebhookSignature.ts",
    from: "let ours = `t=${time},v1=${mac(keys.current.asReturned, `${time}.`, body",
    to: "let ours = `t=${time},v1=${mac(keys.current.asReturned, ``, body",
    tests: ["domain/delivery/WebhookSignature.test.ts"]
  },
  { file: verify, from: "if (!(age <= toleranceSeconds))", to: "if (false)", tests: verifyTests },
  { file: verify, from: "if (!(-age <= toleranceSeconds))", to: "if (false)", tests: verifyTests },
  { file: verify, from: "if (more.length > 0)", to: "if (false)", tests: verifyTests },
  {
    file: verify,
    from: "!(Number.isFinite(toleranceSeconds) && toleranceSeconds >= 0)",
    to: "toleranceSeconds < 0",
    tests: verifyTests
  },
  {
    file: "webhook/signature.ts",
    from: 'if (time !== undefined) return malformed("t is repeated")',
    to: "",
    tests: verifyTests
  },
  {
    file: "webhook/signature.ts",
    from: "if (digestsEqual(expected, digest)) found = true",
    to: "found = digestsEqual(expected, digest)",
    tests: verifyTests
  },
  {
    file: receiver,
    from: "if (verified.ok && orgId !== undefined && verified.event.org_id !== orgId)",
    to: "if (false)",
    tests: receiverTests
  },
  { file: receiver, from: "await claims.release(event.id)", to: "", tests: receiverTests },
  { file: receiver, from: "await claims.complete(event.id)", to: "", tests: receiverTests },
  { file: receiver, from: 'if (claim === "busy") return busyResponse', to: "", tests: receiverTests }
]
