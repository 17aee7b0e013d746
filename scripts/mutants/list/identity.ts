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
const signOnTests = ["server/console/SingleSignOn.test.ts"]
const authorizationTests = ["api/Authorization.test.ts"]
const keys = "server/identity/ApiKeys.ts"
const keyRevocation = "server/identity/ApiKeys/revocation.ts"
const revocationTests = ["server/identity/Revocations.test.ts"]
const limitTests = ["server/identity/OrganizationLimits.test.ts"]
const retentionTests = ["server/identity/ApiKeys/Retention.test.ts"]

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
  },
  {
    file: verify,
    from: 'expires_at !== null && expires_at <= storeClock.millisUnsafe() ? "expired" : undefined',
    to: "undefined",
    tests: [...keyTests, ...authorizationTests]
  },
  {
    file: verify,
    from: "if (networks !== null && !containsAddress(networks, address)) {",
    to: "if (false) {",
    tests: networkTests
  },
  {
    file: verify,
    from: "&& !cache.wasVerified(text)",
    to: "",
    tests: ["server/identity/ApiKeys.test.ts"]
  },
  {
    file: verify,
    from: "onEnded: cache.invalidate",
    to: "onEnded: () => undefined",
    tests: revocationTests
  },
  { file: rows, from: "OR api_keys.revoked_at IS NOT NULL", to: "", tests: revocationTests },
  {
    file: rows,
    from: "OR api_keys.expires_at <= ${toDate(now)}::timestamptz",
    to: "",
    tests: revocationTests
  },
  {
    file: rows,
    from: "WHERE api_keys.digest IS NULL OR",
    to: "WHERE",
    tests: revocationTests
  },
  {
    file: keys,
    from: "const missing = scopes.find((scope) => !principal.scopes.has(scope))",
    to: "const missing = scopes.slice(1).find((scope) => !principal.scopes.has(scope))",
    tests: keyTests
  },
  {
    file: keys,
    from: 'if (maker === undefined || maker.revoked) return yield* invalidKey("revoked")',
    to: 'if (maker === undefined) return yield* invalidKey("revoked")',
    tests: keyTests
  },
  {
    file: keys,
    from: "maker.generation + 1 >= MAX_GENERATIONS",
    to: "maker.generation >= MAX_GENERATIONS",
    tests: keyTests
  },
  {
    file: "server/identity/ApiKeys/keyLimits.ts",
    from: "DateTime.isGreaterThan(requested, maker) ?",
    to: "false ?",
    tests: keyTests
  },
  {
    file: "server/identity/ApiKeys/keyLimits.ts",
    from: "if (maker === null || requested === null) return Effect.succeed(requested ?? maker) return DateTime",
    to: "if (maker === null || requested === null) return Effect.succeed(requested); return DateTime",
    tests: keyTests
  },
  {
    file: "server/identity/ApiKeys/keyLimits.ts",
    from: "if (maker === null || requested === null) return Effect.succeed(requested ?? maker) const outside",
    to: "if (maker === null || requested === null) return Effect.succeed(requested); const outside",
    tests: networkTests
  },
  {
    file: keys,
    from: "yield* organizations.lockForUpdate(org_id) const now",
    to: "const now",
    tests: [...limitTests, ...keyTests]
  },
  {
    file: keyRevocation,
    from: "yield* organizations.lockForUpdate(org_id) const line",
    to: "const line",
    tests: keyTests
  },
  {
    file: keyRevocation,
    from: 'reason === "requested" && revokesAdmin',
    to: "revokesAdmin",
    tests: leakTests
  },
  { file: keys, from: "yield* organizations.lockAll", to: "", tests: ["cli/keys.test.ts", ...keyTests] },
  {
    file: keys,
    from: "(yield* countStoredKeys(sql, org_id, maxStored)) < maxStored",
    to: "true",
    tests: limitTests
  },
  {
    file: "server/identity/ApiKeys/Retention.ts",
    from: "WHERE created_by_id IS NOT NULL AND",
    to: "WHERE",
    tests: retentionTests
  },
  {
    file: "server/identity/ApiKeys/Retention.ts",
    from: "AND made.created_by_id = key.key_id )",
    to: "AND false )",
    tests: retentionTests
  },
  { file: "server/identity/Audit.ts", from: "yield* requireTransaction", to: "", tests: auditTests },
  {
    file: "server/identity/Audit/Retention.ts",
    from: "bool_and(oldest.occurred_at < ${cutoff}) OVER (PARTITION BY due.org_id ORDER BY oldest.position) AS ends",
    to: "oldest.occurred_at < ${cutoff} AS ends",
    tests: auditTests
  },
  {
    file: "server/identity/AuthenticationRefusals.ts",
    from: "else if (counts.size < MAX_LINES)",
    to: "else if (true)",
    tests: refusalTests
  },
  {
    file: "server/identity/People.ts",
    from: "} else if (known.blocked_at !== null) {",
    to: "} else if (false) {",
    tests: signOnTests
  },
  {
    file: "server/console/SingleSignOn/logoutToken.ts",
    from: ' && payload["nonce"] === undefined',
    to: "",
    tests: signOnTests
  },
  {
    file: "server/console/SingleSignOn/logoutToken.ts",
    from: "audience: expected.clientId,",
    to: "",
    tests: signOnTests
  },
  {
    file: "server/console/ConsoleSessions/rows.ts",
    from: "...(begunBy === undefined ? [] : [sql`created_at <= ${toDate(begunBy)}::timestamptz`]),",
    to: "",
    tests: signOnTests
  }
]
