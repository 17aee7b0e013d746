/** Mutants of feedback, its promotion, datasets, comparisons, releases and runs. */
import type { ListedMutant } from "../list.ts"

const promotionTests = ["domain/tasks/Promotion.test.ts"]
const datasetTests = ["server/tasks/Datasets.test.ts"]
const lease = "server/tasks/Comparisons/lease.ts"
const batchTests = ["server/tasks/Comparisons/compareBatch.test.ts"]
const attemptTests = ["server/tasks/Comparisons/attempts.test.ts"]
const comparisonTests = ["server/tasks/Comparisons.test.ts"]
const promote = "server/tasks/Feedback/promoteStaged.ts"
const promoteTests = ["server/tasks/Feedback/promoteStaged.test.ts"]
const review = "server/tasks/Feedback/reviewFeedback.ts"
const reviewTests = ["server/tasks/Feedback/reviewFeedback.test.ts"]
const feedbackTests = ["server/tasks/Feedback.test.ts"]
const correctionTests = ["server/tasks/Feedback/redactCorrection.test.ts"]
const runTests = ["server/tasks/Runs.test.ts"]
const loggedRuns = ["server/tasks/Runs/loggedRuns.test.ts"]
const importTests = ["server/tasks/RunImports.test.ts"]
const trainingTests = ["server/tasks/TrainingExports.test.ts"]
const slotTests = ["server/identity/OrganizationLimits.test.ts"]

export const tasks: ReadonlyArray<ListedMutant> = [
  {
    file: "domain/tasks/Promotion.ts",
    from: "order === 0 ? left.feedback_id > right.feedback_id : order > 0",
    to: "left.feedback_id > right.feedback_id",
    tests: promotionTests
  },
  {
    file: "domain/tasks/Promotion.ts",
    from: "members.toSorted()",
    to: "members",
    tests: promotionTests
  },
  {
    file: "domain/tasks/FeedbackState.ts",
    from: 'isOpen || status === "rejected"',
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
    from: "AND (lease_until IS NULL OR lease_until <= ${currentTime(sql, clock)}) ORDER BY",
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
    from: "AND lease_epoch = ${row.lease_epoch} AND status IN ('running', 'cancelled') RETURNING 1 AS renewed",
    to: "AND status IN ('running', 'cancelled') RETURNING 1 AS renewed",
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
    file: "server/tasks/Releases/chooseCandidate.ts",
    from: 'if (comparison.status !== "completed") {',
    to: "if (false) {",
    tests: [...attemptTests, ...comparisonTests]
  },
  {
    file: "server/tasks/Releases/chooseCandidate.ts",
    from: "if (comparison?.task_id !== task.task_id) return yield* noComparison",
    to: "if (comparison === undefined) return yield* noComparison",
    tests: comparisonTests
  },
  {
    file: "server/tasks/Releases.ts",
    from: 'yield* findTask(sql, org_id, task_id, "FOR NO KEY UPDATE")',
    to: "yield* findTask(sql, org_id, task_id)",
    tests: batchTests
  },
  {
    file: promote,
    from: "yield* acquireDatasetLock(sql, org_id, task_id) const base",
    to: "const base",
    tests: promoteTests
  },
  { file: promote, from: "if (base !== request.base_dataset_id) {", to: "if (false) {", tests: promoteTests },
  {
    file: promote,
    from: "if (plan.revision !== request.expected_feedback_revision) {",
    to: "if (false) {",
    tests: promoteTests
  },
  {
    file: promote,
    from: "if (count === 0) return example",
    to: "if (count >= 0) return example",
    tests: ["server/redaction/RedactionSettings.test.ts"]
  },
  {
    file: promote,
    from: 'yield* updateStatus(sql, org_id, superseded, "superseded", null)',
    to: "",
    tests: promoteTests
  },
  {
    file: promote,
    from: "chunksByBytes(sortByStagingTime(promoted))",
    to: "chunksByBytes(promoted)",
    tests: promoteTests
  },
  {
    file: review,
    from: "(yield* countStaged(sql, org_id, row.task_id)) >= MAX_STAGED",
    to: "(yield* countStaged(sql, org_id, row.task_id)) > MAX_STAGED",
    tests: reviewTests
  },
  {
    file: review,
    from: "if (next.success === row.status) return toFeedback(row)",
    to: "",
    tests: reviewTests
  },
  {
    file: "server/tasks/Feedback/rows.ts",
    from: 'AND ${ofExistingTask(sql, "feedback")} FOR NO KEY UPDATE',
    to: 'AND ${ofExistingTask(sql, "feedback")}',
    tests: reviewTests
  },
  {
    file: "server/tasks/Feedback/rows.ts",
    from: "WHERE runs.org_id = n.org_id AND runs.trace_id = n.trace_id",
    to: "WHERE runs.trace_id = n.trace_id",
    tests: feedbackTests
  },
  {
    file: "server/tasks/Feedback/redactCorrection.ts",
    from: "if (newFaults.length > 0) {",
    to: "if (false) {",
    tests: correctionTests
  },
  {
    file: "server/tasks/Feedback/redactCorrection.ts",
    from: "errors: redactFaults(faults, values)",
    to: "errors: faults",
    tests: correctionTests
  },
  {
    file: "server/tasks/Datasets/beginVersion.ts",
    from: "if (task.dataset_id !== base) {",
    to: "if (false) {",
    tests: datasetTests
  },
  {
    file: "server/tasks/Datasets.ts",
    from: "task.input_schema_digest === checked.input_schema_digest && task.answer_schema_digest === checked.answer_schema_digest ?",
    to: "true ?",
    tests: datasetTests
  },
  {
    file: lease,
    from: "FOR NO KEY UPDATE SKIP LOCKED",
    to: "",
    tests: batchTests
  },
  {
    file: "server/tasks/Comparisons/recordBatch.ts",
    from: "AND lease_epoch = ${row.lease_epoch}",
    to: "",
    tests: batchTests
  },
  {
    file: "server/tasks/Comparisons.ts",
    from: "if (attempts > MAX_ATTEMPTS) {",
    to: "if (false) {",
    tests: attemptTests
  },
  {
    file: "server/tasks/Comparisons.ts",
    from: "yield* organizations.lockForUpdate(org_id)",
    to: "",
    tests: batchTests
  },
  {
    file: "server/tasks/Comparisons.ts",
    from: "if (candidateVersion?.task_id !== task_id) return yield* notVersionOfTask",
    to: "if (candidateVersion === undefined) return yield* notVersionOfTask",
    tests: comparisonTests
  },
  {
    file: "server/tasks/Runs.ts",
    from: 'if (!task.session_exists) return yield* notFound("session", "#/session_id")',
    to: "",
    tests: runTests
  },
  {
    file: "server/tasks/Runs/insertRuns.ts",
    from: "WHERE agent_sessions.org_id = n.org_id AND",
    to: "WHERE",
    tests: loggedRuns
  },
  {
    file: "server/tasks/Runs/insertRuns.ts",
    from: "AND n.redacts_runs = coalesce((",
    to: "AND true IS NOT DISTINCT FROM coalesce(true, (",
    tests: ["server/redaction/RedactionSettings.test.ts"]
  },
  {
    file: "server/tasks/Runs/runIdempotency.ts",
    from: "canonicalJson([actor.id, task_id, asJson(request)])",
    to: "canonicalJson([task_id, asJson(request)])",
    tests: ["server/tasks/Runs/runIdempotency.test.ts"]
  },
  {
    file: "server/tasks/Runs/runIdempotency.ts",
    from: "Effect.ignore(releaseKey(sql, idempotencyKey, now))",
    to: "Effect.void",
    tests: runTests
  },
  {
    file: "server/tasks/Runs/limitLargeRuns.ts",
    from: "withPermit(row.run.org_id)(insert(row))",
    to: "insert(row)",
    tests: ["server/tasks/Runs/limitLargeRuns.test.ts"]
  },
  {
    file: "server/tasks/Runs.ts",
    from: "Effect.andThen(requireCapacity, perform(",
    to: "Effect.andThen(Effect.void, perform(",
    tests: ["server/identity/StoredUsage.test.ts"]
  },
  {
    file: "server/tasks/Runs/makeRunSlots.ts",
    from: "waiting.runs >= limits.concurrentRuns",
    to: "waiting.runs > limits.concurrentRuns",
    tests: slotTests
  },
  {
    file: "server/tasks/Runs/makeRunSlots.ts",
    from: "waiting.bytes + bytes > limits.runBytes",
    to: "bytes > limits.runBytes",
    tests: slotTests
  },
  {
    file: "server/tasks/RunImports/importedTraceId.ts",
    from: "`${org_id}\\n${task_id}\\n${id}`",
    to: "id",
    tests: importTests
  },
  {
    file: "server/tasks/RunImports.ts",
    from: "const stored = rows.filter(({ trace_id }) => inserted.has(trace_id))",
    to: "const stored = rows",
    tests: importTests
  },
  {
    file: "server/tasks/RunImports.ts",
    from: 'yield* usage.requireCapacity(org_id, "runs")',
    to: "",
    tests: importTests
  },
  {
    file: "server/tasks/RunImports/checkRuns.ts",
    from: "if (run.score !== undefined && !canScore) {",
    to: "if (false) {",
    tests: importTests
  },
  {
    file: "server/tasks/TrainingExports.ts",
    from: "redactText(yield* instructionsOf(org_id, task_id, release_id), known)",
    to: "yield* instructionsOf(org_id, task_id, release_id)",
    tests: trainingTests
  },
  {
    file: "server/tasks/TrainingExports.ts",
    from: "release === undefined || release.task_id !== task_id",
    to: "release === undefined",
    tests: trainingTests
  },
  {
    file: "server/tasks/TrainingExports.ts",
    from: "if (isEqualJson(rejected.value, answer)) return Option.none<PreferencePair>()",
    to: "",
    tests: trainingTests
  },
  {
    file: "server/tasks/Providers/prompt.ts",
    from: "...(repair === undefined ? [] : [recordedRepair])",
    to: '...(repair === undefined ? [] : [{ role: "assistant", content: repair.answer }])',
    tests: ["server/tasks/Providers/OpenAi.test.ts"]
  },
  {
    file: "server/tasks/Providers/makeModelProvider.ts",
    from: "withoutSecrets(result.completion.response, secrets)",
    to: "result.completion.response",
    tests: ["server/tasks/Providers/OpenAi.test.ts"]
  },
  {
    file: "server/tasks/Providers/toUsage.ts",
    from: "Math.min(MAX_TOKENS, Math.ceil(count)) : null",
    to: "Math.min(MAX_TOKENS, Math.ceil(count)) : 0",
    tests: ["server/tasks/Providers/OpenAi.test.ts", "server/tasks/Providers/Anthropic.test.ts"]
  },
  {
    file: "server/tasks/Providers/chatRequest.ts",
    from: '{ "api-key": key }',
    to: "{ authorization: key }",
    tests: ["server/tasks/Providers/OpenAi.test.ts"]
  },
  {
    file: "server/tasks/Providers/messagesRequest.ts",
    from: "content: [...result, text(JSON.stringify(asked))]",
    to: "content: [text(JSON.stringify(asked))]",
    tests: ["server/tasks/Providers/Anthropic.test.ts"]
  },
  {
    file: "server/tasks/Providers/classifyResponse.ts",
    from: "return Result.isSuccess(scanned) && Predicate.isObject(input)",
    to: "return Predicate.isObject(input)",
    tests: ["server/tasks/Providers/Anthropic.test.ts"]
  },
  {
    file: "domain/tasks/InstructionTemplate.ts",
    from: "return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined",
    to: "return isObject(value) ? value[name] : undefined",
    tests: ["domain/tasks/InstructionTemplate.test.ts"]
  }
]
