/** Mutants of API keys, their verification and revocation, and of the audit log. */
import type { ListedMutant } from "../list.ts"

const keyTests = ["server/identity/ApiKeys.test.ts"]
const rows = "server/identity/ApiKeys/rows.ts"
const verify = "server/identity/ApiKeys/verifyKey.ts"
const cache = "server/identity/ApiKeys/VerifiedKeyCache.ts"
const cacheTests = ["server/identity/ApiKeys/VerifiedKeyCache.test.ts"]
const networkTests = ["server/identity/ApiKeys/allowedNetworks.test.ts"]
const refusalTests = ["server/identity/AuthenticationRefusals.test.ts"]
const leakTests = ["server/http/LeakedKeys.test.ts"]
const approvalTests = ["server/approvals/Approvals.test.ts"]
const chain = "domain/identity/AuditChain.ts"
const auditTests = ["server/identity/Audit.test.ts"]
const chainTests = ["domain/identity/AuditChain.test.ts", ...auditTests]
const authorizationTests = ["api/Authorization.test.ts"]

export const identity: ReadonlyArray<ListedMutant> = [
  {
    file: verify,
    from: 'if (revoked_at !== null) return "revoked"',
    to: "",
    tests: [...refusalTests, ...authorizationTests]
  },
  {
    file: cache,
    from: "now < entry.expiresAt ? entry.key",
    to: "now <= entry.expiresAt ? entry.key",
    tests: cacheTests
  },
  {
    file: cache,
    from: "entries.size <= MAX_REMEMBERED_KEYS && now - verifiedAt < REMEMBERED_MILLIS",
    to: "entries.size <= MAX_REMEMBERED_KEYS || now - verifiedAt < REMEMBERED_MILLIS",
    tests: cacheTests
  },
  {
    file: rows,
    from: "if (row === undefined || !digestsEqual(row.digest, digest)) return null",
    to: "if (row === undefined) return null",
    tests: keyTests
  },
  {
    file: rows,
    from: "?.some(({ key }) => digestsEqual(digest, apiKeyDigest(key)))",
    to: "?.some(() => true)",
    tests: leakTests
  },
  {
    file: rows,
    from: "AND made.created_by_id = line.key_id",
    to: "AND made.created_by_id = ${key_id}",
    tests: [...keyTests, ...leakTests]
  },
  {
    file: "server/identity/keyMakers.ts",
    from: "UNION SELECT made.created_by_id FROM maker JOIN api_keys AS made ON made.org_id = api_keys.org_id AND made.key_id = maker.key_id",
    to: "",
    tests: [...approvalTests, ...keyTests]
  },
  {
    file: "domain/identity/AllowedNetworks.ts",
    from: "Option.getOrElse(NetAddress.fromIpv4Mapped(address), () => address)",
    to: "address",
    tests: networkTests
  },
  {
    file: "domain/identity/AllowedNetworks.ts",
    from: "IpNetwork.containsNetwork(limit, network)",
    to: "IpNetwork.containsNetwork(network, limit)",
    tests: networkTests
  },
  {
    file: "domain/identity/RateLimit.ts",
    from: "const next = Math.max(fullAt, now) + limit.intervalMillis const remainingMillis",
    to: "const next = fullAt + limit.intervalMillis; const remainingMillis",
    tests: ["domain/identity/RateLimit.test.ts"]
  },
  {
    file: "domain/identity/ApiKeyFormat.ts",
    from: "if (byte >= UNBIASED) continue",
    to: "",
    tests: ["domain/identity/ApiKeyFormat.test.ts"]
  },
  { file: chain, from: "entry.request_id,", to: "null,", tests: chainTests },
  {
    file: chain,
    from: "entry.position !== last.position + 1",
    to: "entry.position <= last.position",
    tests: chainTests
  },
  { file: chain, from: "if (entry.previous_digest !== previous) {", to: "if (false) {", tests: chainTests },
  { file: chain, from: "if (entryDigest(entry) !== entry.digest) {", to: "if (false) {", tests: chainTests },
  {
    file: "server/identity/makeCountLimit.ts",
    from: "counted.added -= added",
    to: "counted.added = 0",
    tests: ["server/identity/makeCountLimit.test.ts"]
  },
  {
    file: verify,
    from: "cache.set(text, exit.value, now)",
    to: "cache.set(text, exit.value, monotonicMillis(clock))",
    tests: ["server/identity/Revocations.test.ts"]
  }
]
