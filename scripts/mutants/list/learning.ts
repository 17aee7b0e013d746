/** Mutants of what the learning loop promises: honest comparisons, exact promotions, releases, canaries, end users, retention and erasure. */
import type { ListedMutant } from "../list.ts"

const holdOut = ["server/tasks/Comparisons/holdOut.test.ts"]
const nearest = ["server/tasks/Datasets/findNearest.test.ts"]
const datasetTests = ["server/tasks/Datasets.test.ts"]
const promoteTests = ["server/tasks/Feedback/promoteStaged.test.ts"]
const deletionTests = ["server/tasks/deleteRuns.test.ts", "server/deletion/Deletions.test.ts"]
const retentionTests = ["server/deletion/DataRetention.test.ts"]
const releaseTests = ["server/tasks/Releases.test.ts"]
const canaryTests = ["server/tasks/Canaries.test.ts"]
const budgetTests = [
  "server/tasks/Comparisons/budget.test.ts",
  "server/tasks/Comparisons/compareBatch.test.ts"
]
const agreementTests = ["domain/tasks/Agreement.test.ts"]
const tokenTests = ["server/tasks/FeedbackTokens.test.ts"]
const reportedTests = ["server/tasks/Runs/toReportedCall.test.ts"]
const tokens = "server/tasks/FeedbackTokens.ts"
const tokenRows = "server/tasks/FeedbackTokens/rows.ts"
const chooseCandidate = "server/tasks/Releases/chooseCandidate.ts"
const spending = "server/tasks/Comparisons/Spending.ts"
const budget = "server/tasks/Comparisons/budgetFaults.ts"
const agreement = "domain/tasks/Agreement.ts"
const erased = "server/tasks/Datasets/erasedRows.ts"
const expired = "server/tasks/deleteExpired.ts"
const steps = "server/tasks/deletionSteps.ts"
const beginVersion = "server/tasks/Datasets/beginVersion.ts"

export const learning: ReadonlyArray<ListedMutant> = [
  // An example is never in its own prompt, nor its own neighbor.
  {
    file: "server/tasks/Datasets/heldOut.ts",
    from: "return sql`input_digest <> decode(${inputDigest(task_id, input)}, 'hex')`",
    to: 'return sql.literal("true")',
    tests: holdOut
  },
  {
    file: "server/tasks/Datasets/heldOut.ts",
    from: "return sql`NOT (${isInTestPart(sql, holdOut)})`",
    to: 'return sql.literal("true")',
    tests: holdOut
  },
  {
    file: "server/tasks/Datasets/heldOut.ts",
    from: 'holdOut.kind === "split" ? isInTestPart(sql, holdOut) : sql.literal("true")',
    to: 'sql.literal("true")',
    tests: holdOut
  },
  // The nearest examples.
  {
    file: "server/tasks/Datasets/findNearest.ts",
    from: "AND first_version <= ${version} ORDER BY",
    to: "ORDER BY",
    tests: nearest
  },
  {
    file: "server/tasks/Datasets/findNearest.ts",
    from: "if (bytes > left) continue",
    to: "",
    tests: [...nearest, "server/tasks/Providers/promptExamples.test.ts"]
  },
  {
    file: "domain/tasks/chooseScannedWords.ts",
    from: "skipped <= MAX_SKIPPED_WEIGHT * total ||",
    to: "true ||",
    tests: ["domain/tasks/chooseScannedWords.test.ts"]
  },
  {
    file: "domain/tasks/Similarity.ts",
    from: "words.map((word) => found.get(word) ?? 0).filter((count) => count > 0)",
    to: "words.map((word) => found.get(word) ?? 0)",
    tests: ["domain/tasks/Similarity.test.ts"]
  },
  {
    file: "server/tasks/Providers/NearestExample.ts",
    from: "if (score < min_score) {",
    to: "if (false) {",
    tests: nearest
  },
  {
    file: "server/tasks/Providers/promptExamples.ts",
    from: "maxBytes: max_tokens * BYTES_PER_TOKEN,",
    to: "",
    tests: ["server/tasks/Providers/promptExamples.test.ts"]
  },
  {
    file: "server/tasks/Providers/findAnswer.ts",
    from: "if (answer !== undefined && others.length === 0)",
    to: "if (answer !== undefined)",
    tests: ["server/tasks/Providers/findAnswer.test.ts", "server/tasks/Providers/OpenAi.test.ts"]
  },
  // One example per input.
  {
    file: beginVersion,
    from: "supersede(same.example.source_feedback_id)",
    to: "",
    tests: [...promoteTests, ...datasetTests]
  },
  {
    file: beginVersion,
    from: "yield* end(sameInputs.filter(({ ended, inserted }) => !ended && !inserted))",
    to: "",
    tests: [...datasetTests, ...promoteTests]
  },
  {
    file: beginVersion,
    from: "for (const hash of hashes) content.removeErased(hash)",
    to: "",
    tests: deletionTests
  },
  {
    file: "server/tasks/Feedback/reviewFeedback.ts",
    from: "if (isOwnRequest(submitter, principal) &&",
    to: "if (false &&",
    tests: ["server/tasks/Feedback/reviewFeedback.test.ts"]
  },
  // Releases and canaries.
  {
    file: chooseCandidate,
    from: "if (![live.id, live.restored_release_id].includes(comparison.live_release_id)) {",
    to: "if (false) {",
    tests: releaseTests
  },
  {
    file: chooseCandidate,
    from: "![live.id, live.restored_release_id].includes(comparison.live_release_id)",
    to: "live.id !== comparison.live_release_id",
    tests: releaseTests
  },
  {
    file: chooseCandidate,
    from: "return candidate.agreed < live.agreed ?",
    to: "return false ?",
    tests: releaseTests
  },
  {
    file: chooseCandidate,
    from: "if (candidate.latency_ms === null)",
    to: "if (false)",
    tests: releaseTests
  },
  {
    file: "server/tasks/Runs/runPlan.ts",
    from: "::bit(32)::bigint < tasks.canary_share",
    to: "::bit(32)::bigint >= tasks.canary_share",
    tests: canaryTests
  },
  {
    file: "server/tasks/Runs/runPlan.ts",
    from: "tasks.canary_release_id || ' ' || ${canary_key}::text",
    to: "tasks.canary_release_id || ' '",
    tests: canaryTests
  },
  {
    file: "server/tasks/Runs.ts",
    from: "request.answer === undefined ? (request.canary_key ?? session_id ?? randomUUID()) : null",
    to: "(request.canary_key ?? session_id ?? randomUUID())",
    tests: canaryTests
  },
  {
    file: "server/tasks/Runs.ts",
    from: "request.canary_key ?? session_id ?? randomUUID()",
    to: "request.canary_key ?? randomUUID()",
    tests: canaryTests
  },
  {
    file: "server/tasks/Releases.ts",
    from: "canary_release_id = NULL, canary_share = NULL, canary_started_at = NULL,",
    to: "",
    tests: canaryTests
  },
  {
    file: "server/tasks/Datasets/removeVersion.ts",
    from: "if (canary?.dataset_id === id)",
    to: "if (false)",
    tests: canaryTests
  },
  // Budgets.
  {
    file: spending,
    from: "spent.calls + (inProgress + 1) * callsPerExample > max_calls",
    to: "spent.calls >= max_calls",
    tests: budgetTests
  },
  {
    file: spending,
    from: "max_failures !== null && failures >= max_failures",
    to: "false",
    tests: budgetTests
  },
  {
    file: spending,
    from: "if (fault !== undefined) return fault",
    to: "",
    tests: budgetTests
  },
  {
    file: spending,
    from: "if (isOver(max_cost, spent.cost ?? 0)) return",
    to: "if (false) return",
    tests: budgetTests
  },
  {
    file: budget,
    from: "max_calls !== undefined && max_calls < calls",
    to: "false",
    tests: budgetTests
  },
  {
    file: budget,
    from: "max_tokens !== undefined && max_tokens < tokens",
    to: "false",
    tests: budgetTests
  },
  {
    file: budget,
    from: ": costs.length === 0 ?",
    to: ": false ?",
    tests: budgetTests
  },
  {
    file: "server/tasks/Comparisons/compareBatch.ts",
    from: "isCompleted ? spending.tooManyFailures() : spending.unknown()",
    to: "isCompleted ? undefined : spending.unknown()",
    tests: budgetTests
  },
  {
    file: "server/tasks/Comparisons/recordBatch.ts",
    from: "CASE WHEN status = 'cancelled' THEN status ELSE ${row.status} END",
    to: "${row.status}",
    tests: ["server/tasks/Comparisons/cancel.test.ts"]
  },
  {
    file: "server/tasks/Comparisons/recordBatch.ts",
    from: "FOR KEY SHARE SKIP LOCKED",
    to: "",
    tests: ["server/tasks/Comparisons/compareBatch.test.ts"]
  },
  // Evaluators.
  {
    file: agreement,
    from: "difference <= evaluator.absolute_tolerance ||",
    to: "",
    tests: agreementTests
  },
  {
    file: agreement,
    from: "difference <= evaluator.relative_tolerance * Math.max(Math.abs(left), Math.abs(right))",
    to: "false",
    tests: agreementTests
  },
  {
    file: agreement,
    from: "if (Number.isInteger(left) && Number.isInteger(right)) return left === right",
    to: "",
    tests: agreementTests
  },
  {
    file: agreement,
    from: "if (other === undefined || match(other, tried)) {",
    to: "if (other === undefined) {",
    tests: agreementTests
  },
  {
    file: agreement,
    from: "if (this.left < 0) throw new TooMuchWork()",
    to: "",
    tests: agreementTests
  },
  // Feedback of end users.
  {
    file: "domain/tasks/FeedbackToken/text.ts",
    from: "|| !isSigned(text.slice(0, end), text.slice(end + 1))",
    to: "",
    tests: tokenTests
  },
  {
    file: "server/http/EndUserFeedback.ts",
    from: "if (token.expires_at * 1000 <= clock.millisUnsafe()) {",
    to: "if (false) {",
    tests: tokenTests
  },
  {
    file: "server/http/EndUserFeedback.ts",
    from: "!isWebOrigin(origin) || !(yield* allowsOrigin(org_id, origin))",
    to: "!isWebOrigin(origin)",
    tests: tokenTests
  },
  {
    file: "server/http/EndUserFeedback.ts",
    from: "yield* limits.admitEndUserFeedback(token)",
    to: "",
    tests: tokenTests
  },
  {
    file: tokens,
    from: "if (token.trace_id !== trace_id) return",
    to: "if (false) return",
    tests: tokenTests
  },
  {
    file: tokens,
    from: "if (score_label !== null && !token.labels.includes(score_label)) return yield* labelNotAllowed",
    to: "",
    tests: tokenTests
  },
  {
    file: tokens,
    from: "Math.min(requested, Math.floor(found.key_expires_at.epochMilliseconds / 1000))",
    to: "requested",
    tests: tokenTests
  },
  {
    file: tokenRows,
    from: "AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ${toDate(now)})",
    to: "",
    tests: tokenTests
  },
  {
    file: tokenRows,
    from: "WHERE used.uses < ${token.max_uses} AND used.last_digest",
    to: "WHERE used.last_digest",
    tests: tokenTests
  },
  { file: tokenRows, from: "AND end_user_feedback < ${limit}", to: "", tests: tokenTests },
  // Retention and erasure.
  {
    file: expired,
    from: "AND run_id < ${RunId.lowerBound(cutoff)} AND created_at < ${toDate(cutoff)}",
    to: "",
    tests: retentionTests
  },
  {
    file: expired,
    from: 'AND feedback_id < ${idBound("fbk", cutoff, 0)} AND created_at < ${toDate(cutoff)}',
    to: "",
    tests: retentionTests
  },
  {
    file: expired,
    from: "AND status <> 'staged' ORDER BY",
    to: "ORDER BY",
    tests: retentionTests
  },
  { file: expired, from: "yield* keepSubjects(sql, org_id, ids)", to: "", tests: retentionTests },
  {
    file: steps,
    from: "sha256(convert_to(${key}::text || '=' || (${sql(column)} -> ${key}::text)::text, 'UTF8')) = ${digest}::bytea,",
    to: "true,",
    tests: deletionTests
  },
  {
    file: steps,
    from: "AND end_user = ${end_user}",
    to: "",
    tests: ["server/deletion/Deletions.test.ts"]
  },
  {
    file: steps,
    from: "isTaskOver ? `${task_id}${NEXT_TASK}` : after,",
    to: "null,",
    tests: ["server/deletion/Deletions.test.ts"]
  },
  {
    file: erased,
    from: "AND first_version = ANY(ARRAY(SELECT DISTINCT version FROM promoted)) AND source_feedback_id = ANY(ARRAY(SELECT feedback_id FROM promoted))",
    to: "AND first_version = ANY(ARRAY(SELECT DISTINCT version FROM promoted))",
    tests: deletionTests
  },
  { file: erased, from: "yield* countErased(sql, org_id, task_id, ids)", to: "", tests: deletionTests },
  {
    file: erased,
    from: "for (const { ordinal } of kept) byOrdinal.delete(ordinal)",
    to: "",
    tests: deletionTests
  },
  {
    file: "server/tasks/Feedback/rows.ts",
    from: "FOR KEY SHARE SKIP LOCKED ) AS run",
    to: ") AS run",
    tests: deletionTests
  },
  // The model call that a client reports.
  {
    file: "server/tasks/Runs/toReportedCall.ts",
    from: "reported !== undefined && reported <= logged && reported >= logged - LONGEST",
    to: "reported !== undefined",
    tests: reportedTests
  }
]
