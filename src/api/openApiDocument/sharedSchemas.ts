/** Schemas of single values that many operations share: components of their own, so that generated clients have one type for each. */
import { Schema } from "effect"
import { ApprovalOutcome, ApprovalStatus, Decision, DecisionSource } from "../../domain/approvals/Approval.ts"
import { ApprovalEventType } from "../../domain/approvals/ApprovalEvent.ts"
import { ApprovalStage } from "../../domain/approvals/ApprovalStage.ts"
import { RuleEffect } from "../../domain/approvals/ApprovalRule.ts"
import { OutcomeStatus, StepDecision, StepDecisionSource } from "../../domain/approvals/AgentSession.ts"
import { DeletionKind, DeletionStatus } from "../../domain/deletion/Deletion.ts"
import { DeliveryStatus } from "../../domain/delivery/DeliveryState.ts"
import * as Ids from "../../domain/Ids.ts"
import { Preset, Scope } from "../../domain/identity/Scope.ts"
import { PersonalData } from "../../domain/redaction/RedactionRules.ts"
import { ComparisonStatus } from "../../domain/tasks/Comparison.ts"
import { JsonObject } from "../../domain/tasks/Dataset.ts"
import { FeedbackStatus } from "../../domain/tasks/Feedback.ts"
import { ReasoningEffort, StructuredOutput } from "../../domain/tasks/Provider.ts"
import { JsonSchema } from "../../domain/tasks/Task.ts"
import { TelemetryDeliveryStatus } from "../../domain/telemetry/TelemetryDestination.ts"
import { Timestamp } from "../../domain/Time.ts"
import { namesOf, referTo, simplify } from "./simplify.ts"
import { type Node, record, referenceOf, without } from "./node.ts"

const named: Readonly<Record<string, readonly [schema: Schema.Top, description: string]>> = {
  ApprovalId: [Ids.ApprovalId, "ID of an approval."],
  AuditEntryId: [Ids.AuditEntryId, "ID of an entry of the audit log."],
  ComparisonId: [Ids.ComparisonId, "ID of a comparison."],
  DatasetId: [Ids.DatasetId, "ID of a dataset version."],
  DeletionId: [Ids.DeletionId, "ID of a deletion."],
  DeliveryId: [Ids.DeliveryId, "ID of a delivery to a webhook endpoint."],
  EndpointId: [Ids.EndpointId, "ID of a webhook endpoint."],
  EventId: [Ids.EventId, "ID of an event that is sent to webhook endpoints."],
  ExampleId: [Ids.ExampleId, "ID of an example."],
  FeedbackId: [Ids.FeedbackId, "ID of a piece of feedback."],
  GrantId: [Ids.GrantId, "ID of a standing grant."],
  ClaimId: [Ids.ClaimId, "ID of a claim of a governed step."],
  InvitationId: [Ids.InvitationId, "ID of an invitation."],
  KeyId: [Ids.KeyId, "ID of an API key."],
  OrgId: [Ids.OrgId, "ID of an organization."],
  ReleaseId: [Ids.ReleaseId, "ID of a release."],
  ReviewerAnswerId: [Ids.ReviewerAnswerId, "ID of an answer of a reviewer model."],
  RuleId: [Ids.RuleId, "ID of an approval rule."],
  SessionId: [Ids.SessionId, "ID of an agent session."],
  StepId: [
    Ids.StepId,
    "The agent's name for a step, unique in its session: 1 to 200 visible characters on one line, not `.` or `..`."
  ],
  TaskId: [Ids.TaskId, "ID of a task."],
  TelemetryDeliveryId: [Ids.TelemetryDeliveryId, "ID of a delivery to a telemetry destination."],
  TelemetryDestinationId: [Ids.TelemetryDestinationId, "ID of a telemetry destination."],
  TraceId: [Ids.TraceId, "A W3C trace ID: 32 lowercase hex digits."],
  Timestamp: [
    Timestamp,
    "A time (RFC 3339) of the years 0001 to 9999, with an offset and without leap seconds. Responses have UTC and milliseconds: `2026-11-21T02:33:05.123Z`."
  ],
  ApprovalEventType: [ApprovalEventType, "A type of event that webhook endpoints can receive."],
  ApprovalOutcome: [ApprovalOutcome, "The effect of a closed approval on its step."],
  ApprovalStage: [ApprovalStage, "The stage of review whose window is open."],
  ApprovalStatus: [ApprovalStatus, "The status of an approval."],
  ComparisonStatus: [ComparisonStatus, "The status of a comparison."],
  Decision: [Decision, "A person's verdict."],
  DecisionSource: [DecisionSource, "How an approval was closed."],
  DeletionKind: [DeletionKind, "What a deletion deletes."],
  DeletionStatus: [DeletionStatus, "The status of a deletion."],
  DeliveryStatus: [DeliveryStatus, "The status of a delivery."],
  FeedbackStatus: [FeedbackStatus, "The status of feedback."],
  OutcomeStatus: [OutcomeStatus, "How a tool ended."],
  PersonalData: [PersonalData, "A kind of personal data."],
  Preset: [Preset, "A named set of scopes."],
  ReasoningEffort: [ReasoningEffort, "The reasoning effort of a model."],
  RuleEffect: [RuleEffect, "The effect of a rule on a step."],
  Scope: [Scope, "A permission of an API key."],
  StepDecision: [StepDecision, "The decision about a step."],
  StepDecisionSource: [StepDecisionSource, "The origin of the decision about a step."],
  StructuredOutput: [StructuredOutput, "How a provider is instructed to return JSON."],
  TelemetryDeliveryStatus: [TelemetryDeliveryStatus, "The status of a delivery of spans."],
  JsonObject: [JsonObject, "A JSON object with any members."],
  JsonSchema: [JsonSchema, "A JSON Schema 2020-12 that allows only objects."]
}

/** The components by name. */
export const sharedSchemas: Readonly<Record<string, Node>> = Object.fromEntries(
  Object.entries(named).map(([name, [schema, description]]) => {
    const definition = record(simplify(Schema.toJsonSchemaDocument(schema).schema))
    const meanings = definition["description"]
    const text = typeof meanings === "string" ? `${description}\n\n${meanings}` : description
    return [name, { ...definition, description: text }]
  })
)

const sharedNames = namesOf(sharedSchemas)

/**
 * Replaces a schema that equals a shared one by a reference to it. Keeps a description that differs from the shared
 * one.
 */
export const refer = (node: Node): Node => {
  const reference = referTo(sharedNames, node)
  const shared = sharedSchemas[referenceOf(reference) ?? ""]?.["description"]
  const { description } = reference
  return typeof shared === "string" && typeof description === "string" && shared.endsWith(description)
    ? without(reference, "description")
    : reference
}
