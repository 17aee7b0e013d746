import { assert, describe, it } from "vitest"
import { findInServer } from "../../support/serverSources.ts"

/** The writes of counted rows that count them, and the builder of their counts. */
const counted: Readonly<Record<string, string>> = {
  "approvals/Approvals/transitionRows.ts: UPDATE approvals": "approvalCounts",
  "approvals/SessionWriter/transitionChange.ts: UPDATE approvals": "approvalCounts",
  "approvals/deleteSessions.ts: DELETE FROM ${sql(table)}": "approvalCounts",
  "delivery/Delivery/ClusterQueueWrites.ts: UPDATE deliveries": "countDeliveries",
  'delivery/Delivery/ClusterQueueWrites.ts: into: "deliveries': "countDeliveries",
  "delivery/Delivery/DeliveryQueue.ts: UPDATE deliveries": "deliveryCounts",
  "delivery/Delivery/QueueWrites.ts: INSERT INTO deliveries": "deliveryCounts",
  "delivery/Delivery/Replay.ts: UPDATE deliveries": "deliveryCounts",
  "delivery/Delivery/writeResults.ts: UPDATE deliveries": "deliveryCounts",
  "tasks/Feedback/insertFeedback.ts: INSERT INTO feedback": "feedbackCounts",
  "tasks/Feedback/withdrawFeedback.ts: UPDATE feedback": "feedbackCounts",
  "tasks/deleteRuns.ts: DELETE FROM feedback": "feedbackCounts",
  "tasks/RunImports/rows.ts: INSERT INTO runs": "runCounts",
  "tasks/Runs/insertRuns.ts: INSERT INTO runs": "runCounts",
  'tasks/Runs/insertRuns.ts: into: "runs': "countRuns",
  "tasks/deleteRuns.ts: DELETE FROM runs": "runCounts"
}

/** The writes that count nothing, and why. */
const uncounted: Readonly<Record<string, string>> = {
  'approvals/SessionWriter/stepChange.ts: into: "approvals': "new approvals are pending",
  "approvals/messageRows.ts: UPDATE approvals": "the number of the newest message is not counted",
  "approvals/proposalRows.ts: UPDATE approvals": "writes a counter-proposal of a closed approval, or its use",
  "delivery/Delivery/Retention.ts: DELETE FROM deliveries": "retention keeps counts",
  "delivery/expireEvents.ts: DELETE FROM ${sql(table)}": "tables of events",
  "secrets/MasterKeys.ts: UPDATE ${sql(sealed.table)}": "tables of secrets",
  "store/Database/describeStatement.ts: UPDATE approvals": "an example in a comment",
  "store/givenRows.ts: INSERT INTO ${sql.literal(`${into}": "the tables of others",
  "store/givenRows.ts: INSERT INTO ${into}": "the tables of others",
  "store/raiseSettingsRevision.ts: INSERT INTO ${sql(table)}": "tables of settings",
  "tasks/Feedback/promoteStaged.ts: UPDATE feedback": "the status of a review is not counted",
  "tasks/Feedback/insertFeedback.ts: UPDATE feedback": "the counts of the insertion in the same statement",
  "tasks/Feedback/rows.ts: UPDATE feedback": "the status of a review is not counted",
  "tasks/FeedbackTokens/rows.ts: UPDATE runs": "the number of an end user's judgements is not counted",
  "tasks/deleteExpired.ts: DELETE FROM feedback": "retention keeps counts",
  "tasks/deleteExpired.ts: DELETE FROM runs": "retention keeps counts",
  "tasks/deletionSteps.ts: DELETE FROM ${sql(table)}":
    "small tables of a task that is deleted, among them its counts"
}

describe("Counted rows", () => {
  it("every statement that writes approvals, deliveries, feedback or runs is known, with its counts or the reason for none", () => {
    const found = findInServer(
      /\b(?:INSERT INTO|UPDATE|DELETE FROM|MERGE INTO|TRUNCATE) (?:(?:approvals|deliveries|feedback|runs)\b|\$\{[^}]*\})|\binto: "(?:approvals|deliveries|feedback|runs)\b/g
    )
    assert.deepStrictEqual(
      [...new Set(found)],
      [...Object.keys(counted), ...Object.keys(uncounted)].toSorted()
    )
    // A second statement of a module is as easily forgotten.
    assert.deepStrictEqual(
      found.filter((statement, index) => found.indexOf(statement) !== index),
      [
        "approvals/proposalRows.ts: UPDATE approvals",
        "delivery/Delivery/QueueWrites.ts: INSERT INTO deliveries"
      ]
    )
  })

  it("every module that writes counted rows has a count for each statement", () => {
    const expected = findInServer(
      /\b(?:(?:approval|delivery|feedback|run)Counts|countDeliveries|countRuns)\(sql, /g
    ).map((use) => use.replace("(sql, ", ""))
    const writes = Object.entries(counted).map(
      ([statement, builder]) => `${statement.split(":")[0]}: ${builder}`
    )
    assert.deepStrictEqual(
      expected,
      [
        ...writes,
        // Inserts without and under the lock of the destination.
        "delivery/Delivery/QueueWrites.ts: deliveryCounts",
        // In the statement of the update, and on a cluster after it.
        "approvals/SessionWriter/transitionChange.ts: approvalCounts"
      ].toSorted()
    )
  })

  it("counts are written by their builders alone", () => {
    const found = findInServer(
      /\b(?:INSERT INTO |UPDATE |DELETE FROM |into: ")(?:approval|approval_group|delivery|feedback|feedback_label|run)_counts\b/g
    )
    assert.deepStrictEqual(found, [
      "approvals/approvalCounts.ts: INSERT INTO approval_counts",
      "approvals/approvalCounts.ts: INSERT INTO approval_group_counts",
      "delivery/Delivery/deliveryCounts.ts: INSERT INTO delivery_counts",
      'delivery/Delivery/deliveryCounts.ts: into: "delivery_counts',
      "tasks/feedbackCounts.ts: INSERT INTO feedback_counts",
      "tasks/feedbackCounts.ts: INSERT INTO feedback_label_counts",
      "tasks/runCounts.ts: INSERT INTO run_counts",
      'tasks/runCounts.ts: into: "run_counts'
    ])
  })
})
