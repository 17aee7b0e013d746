/** Mutants of the access to the database. */
import type { ListedMutant } from "../list.ts"

const responseDeadline = "server/store/Database/ResponseDeadline.ts"
const responseDeadlineTests = ["server/store/Database/ResponseDeadline.test.ts"]
const idempotencyTests = ["server/http/Idempotency.test.ts"]

export const store: ReadonlyArray<ListedMutant> = [
  {
    file: "server/store/databaseErrors.ts",
    from: 'case "DeadlockError":',
    to: "",
    tests: ["server/store/transaction.test.ts", "server/delivery/Delivery/Finisher.test.ts"]
  },
  {
    file: "server/store/idempotencyKeys.ts",
    from: "SET answer = ${sealed} WHERE ${isKey(sql, key)} AND created_at = ${claimedAt}",
    to: "SET answer = ${sealed} WHERE ${isKey(sql, key)}",
    tests: idempotencyTests
  },
  {
    file: "server/http/Idempotency.ts",
    from: ".update(request.url)",
    to: '.update("")',
    tests: idempotencyTests
  },
  {
    file: "server/store/StoreClock.ts",
    from: "offset = Math.round(measured)",
    to: "offset = 0",
    tests: ["server/store/StoreClock.test.ts"]
  },
  {
    file: "server/store/StoreClock.ts",
    from: "(isMeasured && roundTrip > SLOW_MILLIS)",
    to: "false",
    tests: ["server/approvals/Deadlines.test.ts", "server/delivery/Delivery.test.ts"]
  },
  {
    file: "server/store/StoreClock.ts",
    from: "return Math.floor(now() + offset)",
    to: "return Math.floor(now() + machineOffset())",
    tests: ["server/store/StoreClock.test.ts"]
  },
  {
    file: responseDeadline,
    from: "if (deadSince !== undefined) closeSilent(deadSince, now)",
    to: "",
    tests: responseDeadlineTests
  },
  {
    file: responseDeadline,
    from: "count === 0 ? lastResponseAt <= deadSince :",
    to: "count === 0 ? false :",
    tests: responseDeadlineTests
  },
  {
    file: responseDeadline,
    from: "if (!Exit.hasInterrupts(exit)) return Effect.sync(() => end(pending))",
    to: "return Effect.sync(() => end(pending))",
    tests: responseDeadlineTests
  },
  {
    file: responseDeadline,
    from: "|| fiber.getRef(NoResponseDeadline)",
    to: "",
    tests: responseDeadlineTests
  }
]
