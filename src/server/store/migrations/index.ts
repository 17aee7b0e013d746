import type { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import identity from "./0001_identity.ts"
import sessions from "./0002_sessions.ts"
import notifications from "./0003_notifications.ts"
import idempotency from "./0004_idempotency.ts"
import delivery from "./0005_delivery.ts"
import secretRotation from "./0006_secret_rotation.ts"
import told from "./0007_told.ts"
import deadlines from "./0008_deadlines.ts"
import audit from "./0009_audit.ts"
import tasks from "./0010_tasks.ts"
import feedback from "./0011_feedback.ts"
import telemetry from "./0012_telemetry.ts"
import channels from "./0013_channels.ts"
import console from "./0015_console.ts"
import masterKeys from "./0019_master_keys.ts"
import keys from "./0020_keys.ts"
import queueStatistics from "./0021_queue_statistics.ts"
import exampleWords from "./0022_example_words.ts"
import feedbackInputs from "./0023_feedback_inputs.ts"
import batchDeliveries from "./0024_batch_deliveries.ts"
import secretChanges from "./0025_secret_changes.ts"
import feedbackLists from "./0026_feedback_lists.ts"
import attemptErrors from "./0027_attempt_errors.ts"
import restoredReleases from "./0028_restored_releases.ts"
import datasetLists from "./0029_dataset_lists.ts"
import datasetChanges from "./0030_dataset_changes.ts"
import columnNames from "./0031_column_names.ts"
import identityComments from "./0032_identity_comments.ts"
import approvalComments from "./0033_approval_comments.ts"
import taskComments from "./0034_task_comments.ts"
import deliveryComments from "./0035_delivery_comments.ts"
import openSessions from "./0036_open_sessions.ts"
import keyMakers from "./0037_key_makers.ts"
import auditChain from "./0038_audit_chain.ts"
import redactionSettings from "./0039_redaction_settings.ts"
import keyUse from "./0040_key_use.ts"
import organizationUsage from "./0041_organization_usage.ts"
import consoleActivity from "./0042_console_activity.ts"
import comparisonAttempts from "./0043_comparison_attempts.ts"
import endpointVerification from "./0044_endpoint_verification.ts"
import emailVerification from "./0045_email_verification.ts"
import wordIndex from "./0046_word_index.ts"
import exampleScores from "./0047_example_scores.ts"
import promptExamples from "./0048_prompt_examples.ts"
import selfReview from "./0049_self_review.ts"
import runLists from "./0050_run_lists.ts"
import cancelledComparisons from "./0051_cancelled_comparisons.ts"
import honestComparisons from "./0052_honest_comparisons.ts"
import endUserFeedback from "./0053_end_user_feedback.ts"
import exportFormats from "./0054_export_formats.ts"
import deletions from "./0055_deletions.ts"
import modelProviders from "./0056_model_providers.ts"
import canaries from "./0057_canaries.ts"
import previousReleases from "./0058_previous_releases.ts"
import quorums from "./0059_quorums.ts"
import endUserErasures from "./0060_end_user_erasures.ts"
import stepTimes from "./0061_step_times.ts"
import counterProposals from "./0062_counter_proposals.ts"
import shadowRules from "./0063_shadow_rules.ts"
import grants from "./0064_grants.ts"
import shortStepTimes from "./0065_short_step_times.ts"
import codingSessions from "./0066_coding_sessions.ts"
import sessionStepTimes from "./0067_session_step_times.ts"
import endpointDescriptions from "./0068_endpoint_descriptions.ts"
import summaries from "./0069_summaries.ts"
import search from "./0070_search.ts"
import dailyCounts from "./0071_daily_counts.ts"
import decisionsOfTools from "./0072_decisions_of_tools.ts"
import refusedDeliveries from "./0073_refused_deliveries.ts"
import people from "./0074_people.ts"
import closedApprovals from "./0075_closed_approvals.ts"
import runsOfOrganization from "./0076_runs_of_organization.ts"
import blockedPeople from "./0077_blocked_people.ts"
import providerSessions from "./0078_provider_sessions.ts"
import organizationMoves from "./0079_organization_moves.ts"
import virtualShards from "./0080_virtual_shards.ts"
import fenceByState from "./0081_fence_by_state.ts"
import fencePartitions from "./0082_fence_partitions.ts"
import organizationCopies from "./0083_organization_copies.ts"
import arrivalCodes from "./0084_arrival_codes.ts"
import exportAgain from "./0085_export_again.ts"

/** Every migration, in the order of application. Append only: a released migration is never edited. */
export const migrations: Record<string, Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient>> = {
  "0001_identity": identity,
  "0002_sessions": sessions,
  "0003_notifications": notifications,
  "0004_idempotency": idempotency,
  "0005_delivery": delivery,
  "0006_secret_rotation": secretRotation,
  "0007_told": told,
  "0008_deadlines": deadlines,
  "0009_audit": audit,
  "0010_tasks": tasks,
  "0011_feedback": feedback,
  "0012_telemetry": telemetry,
  "0013_channels": channels,
  "0015_console": console,
  "0019_master_keys": masterKeys,
  "0020_keys": keys,
  "0021_queue_statistics": queueStatistics,
  "0022_example_words": exampleWords,
  "0023_feedback_inputs": feedbackInputs,
  "0024_batch_deliveries": batchDeliveries,
  "0025_secret_changes": secretChanges,
  "0026_feedback_lists": feedbackLists,
  "0027_attempt_errors": attemptErrors,
  "0028_restored_releases": restoredReleases,
  "0029_dataset_lists": datasetLists,
  "0030_dataset_changes": datasetChanges,
  "0031_column_names": columnNames,
  "0032_identity_comments": identityComments,
  "0033_approval_comments": approvalComments,
  "0034_task_comments": taskComments,
  "0035_delivery_comments": deliveryComments,
  "0036_open_sessions": openSessions,
  "0037_key_makers": keyMakers,
  "0038_audit_chain": auditChain,
  "0039_redaction_settings": redactionSettings,
  "0040_key_use": keyUse,
  "0041_organization_usage": organizationUsage,
  "0042_console_activity": consoleActivity,
  "0043_comparison_attempts": comparisonAttempts,
  "0044_endpoint_verification": endpointVerification,
  "0045_email_verification": emailVerification,
  "0046_word_index": wordIndex,
  "0047_example_scores": exampleScores,
  "0048_prompt_examples": promptExamples,
  "0049_self_review": selfReview,
  "0050_run_lists": runLists,
  "0051_cancelled_comparisons": cancelledComparisons,
  "0052_honest_comparisons": honestComparisons,
  "0053_end_user_feedback": endUserFeedback,
  "0054_export_formats": exportFormats,
  "0055_deletions": deletions,
  "0056_model_providers": modelProviders,
  "0057_canaries": canaries,
  "0058_previous_releases": previousReleases,
  "0059_quorums": quorums,
  "0060_end_user_erasures": endUserErasures,
  "0061_step_times": stepTimes,
  "0062_counter_proposals": counterProposals,
  "0063_shadow_rules": shadowRules,
  "0064_grants": grants,
  "0065_short_step_times": shortStepTimes,
  "0066_coding_sessions": codingSessions,
  "0067_session_step_times": sessionStepTimes,
  "0068_endpoint_descriptions": endpointDescriptions,
  "0069_summaries": summaries,
  "0070_search": search,
  "0071_daily_counts": dailyCounts,
  "0072_decisions_of_tools": decisionsOfTools,
  "0073_refused_deliveries": refusedDeliveries,
  "0074_people": people,
  "0075_closed_approvals": closedApprovals,
  "0076_runs_of_organization": runsOfOrganization,
  "0077_blocked_people": blockedPeople,
  "0078_provider_sessions": providerSessions,
  "0079_organization_moves": organizationMoves,
  "0080_virtual_shards": virtualShards,
  "0081_fence_by_state": fenceByState,
  "0082_fence_partitions": fencePartitions,
  "0083_organization_copies": organizationCopies,
  "0084_arrival_codes": arrivalCodes,
  "0085_export_again": exportAgain
}
