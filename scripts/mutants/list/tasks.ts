/** Mutants of feedback, its promotion, datasets, comparisons, releases and runs. */
import type { ListedMutant } from "../list.ts"

const promotionTests = ["domain/tasks/Promotion.test.ts"]
const datasetTests = ["server/tasks/Datasets.test.ts"]
const lease = "server/tasks/Comparisons/lease.ts"
const batchTests = ["server/tasks/Comparisons/compareBatch.test.ts"]
const attemptTests = ["server/tasks/Comparisons/attempts.test.ts"]
const comparisonTests = ["server/tasks/Comparisons.test.ts"]

export const tasks: ReadonlyArray<ListedMutant> = [
  {
    file: "domain/tasks/Promotion.ts",
    from: "order === 0 ? left.feedback_id > right.feedback_id : order > 0",
    to: "left.feedback_id > right.feedback_id",
    tests: promotionTests
  },
  {
    file: "domain/tasks/Promotion.ts",
    from: "staged.map(({ feedback_id }) => feedback_id).toSorted()",
    to: "staged.map(({ feedback_id }) => feedback_id)",
    tests: promotionTests
  },
  {
    file: "domain/tasks/FeedbackState.ts",
    from: 'status === "pending" || status === "rejected"',
    to: 'status !== "promoted"',
    tests: ["domain/tasks/FeedbackState.test.ts"]
  },
  {
    file: "server/tasks/Datasets.ts",
    from: "yield* acquireDatasetLock(sql, org_id, task_id) const task",
    to: "const task",
    tests: datasetTests
  },
  {
    file: "server/tasks/Datasets.ts",
    from: "Stream.mapEffect(examples, (example) => redactExample(example, known))",
    to: "examples",
    tests: ["server/redaction/RedactionSettings.test.ts"]
  },
  {
    file: "server/tasks/Datasets/checkExamples.ts",
    from: "if (work.left < 0) {",
    to: "if (false) {",
    tests: ["server/tasks/Datasets/checkExamples.test.ts"]
  },
  {
    file: lease,
    from: "AND (lease_until IS NULL OR lease_until <= ${toDate(now)}) ORDER BY",
    to: "ORDER BY",
    tests: batchTests
  },
  {
    file: lease,
    from: "lease_epoch = lease_epoch + 1,",
    to: "lease_epoch = lease_epoch,",
    tests: batchTests
  },
  {
    file: lease,
    from: "AND lease_epoch = ${row.lease_epoch} AND status = 'running' RETURNING 1 AS renewed",
    to: "AND status = 'running' RETURNING 1 AS renewed",
    tests: [...batchTests, "faults/Comparisons.test.ts"]
  },
  {
    file: lease,
    from: "AND lease_epoch = ${row.lease_epoch} AND status = 'running' ` /** Ends",
    to: "AND status = 'running' ` /** Ends",
    tests: [...batchTests, ...attemptTests]
  },
  {
    file: "server/tasks/Comparisons.ts",
    from: "isCounted: !isDatabaseOutage(exit.cause)",
    to: "isCounted: true",
    tests: attemptTests
  },
  {
    file: "server/tasks/Releases.ts",
    from: 'if (comparison.status !== "completed") {',
    to: "if (false) {",
    tests: [...attemptTests, ...comparisonTests]
  },
  {
    file: "server/tasks/Releases.ts",
    from: "if (comparison?.task_id !== task.task_id) return yield* noComparison",
    to: "if (comparison === undefined) return yield* noComparison",
    tests: comparisonTests
  },
  {
    file: "server/tasks/Releases.ts",
    from: 'yield* findTask(sql, org_id, task_id, "FOR NO KEY UPDATE")',
    to: "yield* findTask(sql, org_id, task_id)",
    tests: batchTests
  }
]
