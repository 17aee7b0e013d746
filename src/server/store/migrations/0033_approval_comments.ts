import { comments, createdBy, orgId } from "./comments.ts"

/** Comments on sessions, steps, approvals, and the events and email about them. */
export default comments({
  agent_sessions: [
    "Sessions of agents: a sequence of governed steps.",
    {
      ...orgId,
      session_id: "Id, ses_….",
      task_id: "Task that the session works on; null: none.",
      trace_id: "W3C trace id of the session's spans.",
      metadata: "JSON object from the caller.",
      created_at: "When the session was opened.",
      ...createdBy,
      closed_at: "When the session was closed; null: open.",
      last_event:
        "Number of the newest event. Raised under the row lock, so that event numbers follow commit order."
    }
  ],
  session_events: [
    "Events of sessions, streamed to clients and numbered per session.",
    {
      ...orgId,
      session_id: "Session of the event.",
      number: "Position in the session, from 1 without gaps; the id of the event in the stream.",
      type: "Event type, such as step:governed.",
      step_id: "Step of the event; null: about the session itself.",
      occurred_at: "When it happened.",
      data: "Payload of the event, as streamed."
    }
  ],
  governed_steps: [
    "Steps that agents asked permission for, with the decision and the reported outcome.",
    {
      ...orgId,
      session_id: "Session of the step.",
      step_id: "Id chosen by the agent, unique in its session.",
      task_id: "Task that the step belongs to; null: none.",
      tool: "Tool that the agent wants to use.",
      action_class: "Class of the action, which rules match on.",
      arguments: "Arguments of the tool; null: none were sent.",
      arguments_digest:
        "Digest of the step: its ids, tool, action class and arguments. A repeated request must have the same.",
      rule_id: "Rule that decided; null: no rule matched.",
      decision: "Decision when the step was requested: allow, reject or pending (needs approval).",
      reason: "Explanation of the decision for the agent.",
      approval_id: "Approval that the step needs; null: decided without one.",
      requested_by_id: "API key of the agent.",
      requested_at: "When the step was requested.",
      outcome_status: "Outcome that the agent reported: succeeded or failed; null: none yet.",
      outcome_result: "Result that the agent reported; null: none.",
      outcome_error: "Error that the agent reported; null: none.",
      outcome_at: "When the outcome was reported; null: none yet.",
      last_decision: "Decision of the last response to the agent; null: the same as decision."
    }
  ],
  approvals: [
    "Approvals of governed steps, from pending to a decision by a person, a time-out or the end of the session.",
    {
      ...orgId,
      approval_id: "Id, apr_….",
      session_id: "Session of the step.",
      step_id: "Step that waits for the decision.",
      task_id: "Task of the step; null: none.",
      tool: "Tool that the agent wants to use.",
      action_class: "Class of the action.",
      arguments: "Arguments of the tool; null: none were sent.",
      arguments_digest: "Digest of the step: its ids, tool, action class and arguments.",
      arguments_bytes: "Length of the arguments as text, in bytes; pages are limited by it.",
      status: "pending, approved, rejected or expired.",
      stage: "Who may decide now: reviewer, or admin after the escalation.",
      requested_at: "When the approval was requested.",
      requested_by_id: "API key of the agent, which may not decide unless self_approval is set.",
      review_deadline_at: "End of the review window.",
      escalation_deadline_at: "End of the escalation window; null: the rule does not escalate.",
      expires_at:
        "End of the current window: review_deadline_at, or escalation_deadline_at after an escalation.",
      expiring_seconds:
        "How long before the end of a window to warn, in seconds; 0: no warning; null: a quarter of the window.",
      expiring_notified: "Whether the warning for the current window was sent.",
      escalated_at: "When the approval was escalated; null: not escalated.",
      timeout_action: "What happens to the step if nobody decides in time: allow or reject.",
      self_approval: "Whether the requesting key may decide.",
      outcome: "What happened to the step: allow or reject; null while pending.",
      decision_source: "What closed the approval: human, timeout or session_closed; null while pending.",
      decided_at: "When the approval was closed; null while pending.",
      decided_by_id: "API key that decided; null: no person did.",
      decided_by_name: "Name of that key at the time; null: no person did.",
      comment: "Comment of the reviewer; null: none.",
      next_due_at: "When the next transition by time is due (warn, escalate or expire); null: closed."
    }
  ],
  approval_rules: [
    "The approval rules of an organization, as one document.",
    {
      ...orgId,
      revision: "Raised with each change, for optimistic concurrency.",
      rules: "Rules in the order of evaluation, as a JSON array."
    }
  ],
  approval_events: [
    "Approval events with the exact bytes that webhooks sign and send.",
    {
      ...orgId,
      event_id: "Id, evt_…; the webhook-id of its deliveries.",
      type: "Event type, such as approval.requested.",
      approval_id: "Approval of the event; null: a test event.",
      body: "JSON body as signed.",
      occurred_at: "When it happened."
    }
  ],
  approval_mail: [
    "Approval email to send, one row per event and recipient. The text is written from the approval when the email is sent.",
    {
      ...orgId,
      event_id: "Id of the email as a delivery event.",
      type: "Event type that the email is about.",
      approval_id: "Approval that the email is about.",
      key_id: "API key whose address receives the email.",
      occurred_at: "When the event happened."
    }
  ],
  notification_endpoints: [
    "Webhook endpoints of an organization.",
    {
      ...orgId,
      endpoint_id: "Id, the destination of its deliveries.",
      url: "Sealed URL.",
      url_hint: "URL without secrets, for display.",
      secret: "Sealed signing secret.",
      previous_secret: "Sealed signing secret before the last rotation; null: none.",
      previous_secret_until: "Until when the previous secret also signs; null: none.",
      events: "Event types that the endpoint receives.",
      active: "Whether events are delivered; false after 410 Gone or when disabled by the API.",
      created_at: "When the endpoint was created.",
      ...createdBy
    }
  ]
})
