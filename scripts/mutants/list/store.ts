/** Mutants of the access to the database. */
import type { ListedMutant } from "../list.ts"

const responseDeadline = "server/store/Database/ResponseDeadline.ts"
const responseDeadlineTests = ["server/store/Database/ResponseDeadline.test.ts"]
const idempotencyTests = ["server/http/Idempotency.test.ts"]
const transactions = "server/store/transaction.ts"
const transactionTests = ["server/store/transaction.test.ts"]
const errors = "server/store/databaseErrors.ts"
const keys = "server/store/idempotencyKeys.ts"
const idempotency = "server/http/Idempotency.ts"
const batcher = "server/concurrency/Batcher.ts"
const batcherTests = ["server/concurrency/Batcher.test.ts"]
const statementBatcherTests = ["server/store/makeStatementBatcher.test.ts"]

const backup = "server/store/EmbeddedPostgres/backup"
const backupTests = ["server/store/EmbeddedPostgres/backup/backup.test.ts"]

export const store: ReadonlyArray<ListedMutant> = [
  {
    file: "server/store/databaseErrors.ts",
    from: 'case "DeadlockError":',
    to: "",
    tests: ["server/store/databaseErrors.test.ts"]
  },
  {
    file: "server/store/idempotencyKeys.ts",
    from: "SET answer = ${sealed} WHERE ${isKey(sql, key)} AND created_at = ${claimedAt}",
    to: "SET answer = ${sealed} WHERE ${isKey(sql, key)}",
    tests: ["server/tasks/Runs/runIdempotency.test.ts"]
  },
  {
    file: "server/http/Idempotency.ts",
    from: ".update(request.url)",
    to: '.update("")',
    tests: idempotencyTests
  },
  {
    file: "server/store/StoreClock.ts",
    from: "offset = Math.round(nearest)",
    to: "offset = 0",
    tests: ["server/store/StoreClock.test.ts"]
  },
  {
    file: "server/store/StoreClock.ts",
    from: "Math.min(Math.max(offset, least), most)",
    to: "(least + most) / 2",
    tests: ["server/store/StoreClock.test.ts"]
  },
  {
    file: "server/store/StoreClock.ts",
    from: "if (row === undefined) return",
    to: "if (row === undefined || after - before > 250) return",
    tests: ["server/store/StoreClock.test.ts"]
  },
  {
    file: "server/store/StoreClock.ts",
    from: "return Math.floor(now() + offset)",
    to: "return Math.floor(now() + machineOffset())",
    tests: ["server/store/StoreClock.test.ts"]
  },
  {
    file: responseDeadline,
    from: "if (now < loss.until) closeSilent(now)",
    to: "",
    tests: responseDeadlineTests
  },
  {
    file: responseDeadline,
    from: "(connection.count === 0 || isWholeLoss)",
    to: "false",
    tests: responseDeadlineTests
  },
  {
    file: responseDeadline,
    from: "(connection.count === 0 || isWholeLoss)",
    to: "connection.count === 0",
    tests: responseDeadlineTests
  },
  {
    file: responseDeadline,
    from: "isWholeLoss && now - connection.silentSince >= millis * UNUSUAL_SHARE",
    to: "false",
    tests: responseDeadlineTests
  },
  {
    file: responseDeadline,
    from: "loss = { before: now - millis, until: now + millis }",
    to: "loss = { before: now - millis, until: now + 1 }",
    tests: responseDeadlineTests
  },
  {
    file: responseDeadline,
    from: "if (!Exit.hasInterrupts(exit)) {",
    to: "if (exit !== undefined) {",
    tests: responseDeadlineTests
  },
  {
    file: responseDeadline,
    from: "|| fiber.getRef(NoResponseDeadline)",
    to: "",
    tests: responseDeadlineTests
  },
  { file: responseDeadline, from: "if (wasPaused) return", to: "", tests: responseDeadlineTests },
  {
    file: transactions,
    from: 'error.reason._tag === "DeadlockError" || error.reason._tag === "SerializationError"',
    to: 'error.reason._tag === "DeadlockError"',
    tests: transactionTests
  },
  {
    file: transactions,
    from: "if (Cause.isDieReason(reason) && SqlError.isSqlError(reason.defect)) return Effect.fail(reason.defect)",
    to: "",
    tests: transactionTests
  },
  {
    file: transactions,
    from: "sql.afterCommit(Effect.provideService(effect, CompletionHooks, undefined))",
    to: "sql.afterCommit(effect)",
    tests: transactionTests
  },
  {
    file: transactions,
    from: "runHooks(hooks.splice(before), false)",
    to: "runHooks(hooks.slice(before), false)",
    tests: transactionTests
  },
  {
    file: transactions,
    from: "runHooks(hooks, Exit.isSuccess(exit))",
    to: "runHooks(hooks, true)",
    tests: transactionTests
  },
  {
    file: errors,
    from: "^(53(?!400)\\d{3}",
    to: "^(53\\d{3}",
    tests: ["server/store/DatabaseHealth.test.ts"]
  },
  {
    file: errors,
    from: "sqlState(error) === IDLE_IN_TRANSACTION_TIMEOUT ||",
    to: "",
    tests: ["server/store/Database/lostTransactions.test.ts"]
  },
  {
    file: errors,
    from: "|25006|58\\d{3})$/",
    to: "|58\\d{3})$/",
    tests: ["server/store/DatabaseHealth.test.ts"]
  },
  {
    file: errors,
    from: 'const isSafe = state === "" || state === "42501" || SAFE_CLASS.test(state)',
    to: "const isSafe = true",
    tests: ["server/store/databaseErrors.test.ts"]
  },
  {
    file: keys,
    from: "WHERE existing.created_at < excluded.created_at - ${RETENTION}::interval OR (",
    to: "WHERE (",
    tests: idempotencyTests
  },
  {
    file: keys,
    from: "AND existing.created_at < excluded.created_at - ${ABANDONED_AFTER}::interval)",
    to: ")",
    tests: ["server/tasks/Runs.test.ts"]
  },
  {
    file: keys,
    from: "if (row !== undefined && !Buffer.from(row.fingerprint).equals(fingerprint)) {",
    to: "if (false) {",
    tests: idempotencyTests
  },
  { file: keys, from: "org_id = ${org_id} AND operation", to: "operation", tests: idempotencyTests },
  {
    file: keys,
    from: "AND operation = ${operation} AND key = ${key}",
    to: "AND key = ${key}",
    tests: idempotencyTests
  },
  {
    file: keys,
    from: "AND created_at = ${claimedAt} AND answer IS NULL",
    to: "AND answer IS NULL",
    tests: ["server/tasks/Runs/runIdempotency.test.ts"]
  },
  { file: idempotency, from: ".update(principal.actor.id)", to: '.update("")', tests: idempotencyTests },
  { file: idempotency, from: ".update(new Uint8Array(body))", to: '.update("")', tests: idempotencyTests },
  {
    file: idempotency,
    from: "const MAX_CONCURRENT = 4",
    to: "const MAX_CONCURRENT = 400",
    tests: idempotencyTests
  },
  {
    file: "server/store/Database/limitTransactions.ts",
    from: "const MAX_CONNECTIONS_PER_ORGANIZATION = 8",
    to: "const MAX_CONNECTIONS_PER_ORGANIZATION = 800",
    tests: ["server/store/Database/limitTransactions.test.ts"]
  },
  {
    file: "server/store/makeStatementBatcher.ts",
    from: "runsAlone: isInTransaction,",
    to: "",
    tests: statementBatcherTests
  },
  {
    file: "server/store/makeStatementBatcher.ts",
    from: "isolates: (error) => !isDatabaseUnavailable(error)",
    to: "isolates: () => true",
    tests: statementBatcherTests
  },
  {
    file: "server/store/makeOnOwnConnection.ts",
    from: "Option.isSome(open) ? statement :",
    to: "",
    tests: ["server/store/makeOnOwnConnection.test.ts"]
  },
  { file: batcher, from: "if (group.length === options.maxBatch) break", to: "", tests: batcherTests },
  {
    file: batcher,
    from: "Cause.isFailReason(reason) && isolates(reason.error)",
    to: "Cause.isFailReason(reason)",
    tests: batcherTests
  },
  {
    file: batcher,
    from: "if (abandonedMillis === 0) return fiber.interruptUnsafe()",
    to: "return fiber.interruptUnsafe()",
    tests: batcherTests
  },
  {
    file: "server/concurrency/KeyedSemaphore.ts",
    from: "if (waiter.permits > state.free) break",
    to: "if (waiter.permits > state.free) continue",
    tests: ["server/concurrency/KeyedSemaphore.test.ts"]
  },
  {
    file: "server/store/PgNotify.ts",
    from: "yield* on(undefined)",
    to: "",
    tests: ["server/store/PgNotify.test.ts"]
  },
  {
    file: "server/store/withoutTimeouts.ts",
    from: "yield* sql`SET LOCAL lock_timeout = 0`",
    to: "",
    tests: ["server/secrets/MasterKeys.test.ts", "server/tasks/Datasets/datasetLock.test.ts"]
  },
  {
    file: `${backup}/walSegments.ts`,
    from: "const last = (end - 1n) / segmentBytes",
    to: "const last = end / segmentBytes",
    tests: ["server/store/EmbeddedPostgres/backup/walSegments.test.ts"]
  },
  {
    file: `${backup}/verifyBackup.ts`,
    from: "if (found !== digest) throw",
    to: "if (false) throw",
    tests: backupTests
  },
  {
    file: `${backup}/verifyBackup.ts`,
    from: "if (additional !== undefined)",
    to: "if (false)",
    tests: backupTests
  },
  {
    file: `${backup}/BackupManifest.ts`,
    from: 'name !== "." && name !== ".."',
    to: 'name !== "."',
    tests: backupTests
  },
  {
    file: `${backup}/restoreBackup.ts`,
    from: "if (isReplacing && !force) {",
    to: "if (false) {",
    tests: backupTests
  },
  {
    file: "server/store/EmbeddedPostgres/Cluster.ts",
    from: "&& !(yield* finishRestore(dataDir, directory))",
    to: "",
    tests: backupTests
  },
  {
    file: "server/store/migrate.ts",
    from: "yield* sql`SELECT set_config('lock_timeout', ${String(LOCK_WAIT_MILLIS)}, true)`",
    to: "",
    tests: ["server/store/migrate.test.ts"]
  },
  {
    file: "server/store/Database/schemaVersion.ts",
    from: "if (incompatible !== undefined) {",
    to: "if (false) {",
    tests: ["server/store/migrate.test.ts"]
  }
]
