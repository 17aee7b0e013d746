/** Sessions of agents, their governed steps, approvals, rules and grants. */
export const approvals = `
-- Sessions of agents: a sequence of governed steps.
CREATE TABLE agent_sessions (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  session_id text COLLATE "C" NOT NULL, -- Id, ses_….
  task_id text COLLATE "C", -- Task that the session works on; null: none.
  trace_id text COLLATE "C" NOT NULL, -- W3C trace id of the session's spans.
  metadata json, -- JSON object from the caller.
  created_at timestamptz NOT NULL, -- When the session was opened.
  created_by_id text COLLATE "C" NOT NULL, -- API key that created the row.
  created_by_name text NOT NULL, -- Name of that key at the time.
  closed_at timestamptz, -- When the session was closed; null: open.
  last_event bigint NOT NULL DEFAULT 0, -- Number of the newest event. Raised under the row lock, so that event numbers follow commit order.
  proposals_until timestamptz, -- When the last unused counter-proposal of the session expires; null: there is none. Steps look for proposals only until then.
  grants_until timestamptz, -- When the last of its standing grants ends at the latest; null: it has none.
  shared boolean NOT NULL DEFAULT false, -- Whether every key that writes sessions may submit its steps, and not only those of its creator.
  PRIMARY KEY (org_id, session_id)
) WITH (fillfactor=50);
CREATE INDEX agent_sessions_open ON agent_sessions (org_id) WHERE closed_at IS NULL;

-- Steps that agents asked permission for, with the decision and the reported outcome.
CREATE TABLE governed_steps (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  session_id text COLLATE "C" NOT NULL, -- Session of the step.
  step_id text COLLATE "C" NOT NULL, -- Id chosen by the agent, unique in its session.
  task_id text COLLATE "C", -- Task that the step belongs to; null: none.
  tool text NOT NULL, -- Tool that the agent wants to use.
  action_class text NOT NULL, -- Class of the action, which rules match on.
  arguments json, -- Arguments of the tool; null: none were sent.
  arguments_digest text COLLATE "C" NOT NULL, -- Digest of the step: its ids, tool, action class and arguments. A repeated request must have the same.
  rule_id text COLLATE "C", -- Rule that decided; null: no rule matched.
  decision text NOT NULL, -- Decision when the step was requested: allow, reject or pending (needs approval).
  reason text NOT NULL, -- Explanation of the decision for the agent.
  approval_id text COLLATE "C", -- Approval that the step needs; null: decided without one.
  requested_by_id text COLLATE "C" NOT NULL, -- API key of the agent.
  requested_at timestamptz NOT NULL, -- When the step was requested.
  outcome_status text, -- Outcome that the agent reported: succeeded or failed; null: none yet.
  outcome_result json, -- Result that the agent reported; null: none.
  outcome_error text, -- Error that the agent reported; null: none.
  outcome_at timestamptz, -- When the outcome was reported; null: none yet.
  last_decision text, -- Decision of the last response to the agent; null: the same as decision.
  proposal_approval_id text COLLATE "C", -- Approval whose counter-proposal allowed the step; null: a rule or an approval of its own decided.
  shadow_effect text, -- Effect that the shadow rules would have had; null: the same as the decision, or there were none.
  shadow_rule_id text, -- Shadow rule that matched; null: none did, or there is no difference.
  shadow_reason text, -- Explanation that the shadow rules would have given; null: no difference.
  shadow_revision integer, -- Revision of the shadow rules that differ; null: no difference.
  grant_id text COLLATE "C", -- Standing grant that allowed the step; null: none.
  reviewer_task_id text COLLATE "C", -- Task of the reviewer model that decided the step; null: none. So are the two columns below.
  reviewer_release_id text COLLATE "C", -- Release that answered.
  reviewer_reason text, -- Reason that the model gave, redacted.
  claim_id text COLLATE "C", -- Claim of the latest attempt to execute the step, clm_…; null: nobody has claimed it. So are the columns below.
  execution text, -- executing, unknown (no outcome by the end of the lease), completed, or retryable (a person allows another attempt).
  attempt integer, -- 1 for the first claim.
  claimed_at timestamptz, -- When it was claimed.
  claimed_by_id text COLLATE "C", -- API key that claimed it.
  claimed_by_name text, -- Name of that key at the time.
  claim_expires_at timestamptz, -- End of the lease.
  claim_request text COLLATE "C", -- SHA-256 of the request that claimed it, whose repetition gets the same claim; null: it cannot be repeated.
  unknown_at timestamptz, -- When the outcome of this attempt became unknown; null: it has not.
  resolution text, -- What a person found, or allowed: succeeded, failed, not_executed or retry; null: no person resolved it. So are the columns below.
  resolved_at timestamptz, -- When it was resolved.
  resolved_by_id text COLLATE "C", -- API key that resolved it.
  resolved_by_name text, -- Name of that key at the time.
  resolution_comment text, -- Comment of that person; null: none.
  PRIMARY KEY (org_id, session_id, step_id),
  CHECK (decision IN ('allow', 'reject', 'pending')),
  CHECK (execution IN ('executing', 'unknown', 'completed', 'retryable')),
  CHECK ((claim_id IS NULL) = (execution IS NULL)),
  CHECK ((execution = 'completed') = (outcome_at IS NOT NULL)),
  CHECK (resolution IN ('succeeded', 'failed', 'not_executed', 'retry')),
  CHECK (last_decision IN ('allow', 'reject', 'pending')),
  CHECK (outcome_status IN ('succeeded', 'failed')),
  CHECK (shadow_effect IN ('allow', 'reject', 'require_approval')),
  CHECK ((reviewer_task_id IS NULL) = (reviewer_release_id IS NULL) AND (reviewer_task_id IS NULL) = (reviewer_reason IS NULL)),
  CHECK (reviewer_task_id IS NULL OR (decision <> 'pending' AND approval_id IS NULL AND grant_id IS NULL))
) WITH (fillfactor=80);
CREATE INDEX governed_steps_leases ON governed_steps (claim_expires_at, claim_id) WHERE execution = 'executing';
CREATE INDEX governed_steps_uncertain ON governed_steps (org_id, claim_id) WHERE unknown_at IS NOT NULL;
CREATE INDEX governed_steps_unknown ON governed_steps (org_id, claim_id) WHERE execution = 'unknown';
CREATE INDEX governed_steps_of_session ON governed_steps (hashtextextended(session_id, (0)::bigint), requested_at);
CREATE INDEX governed_steps_requested_at ON governed_steps (org_id, requested_at);
CREATE INDEX governed_steps_shadow ON governed_steps (org_id, shadow_revision, decision, shadow_effect, requested_at, session_id, step_id) WHERE shadow_effect IS NOT NULL;

-- Events of sessions, streamed to clients and numbered per session.
CREATE TABLE session_events (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  session_id text COLLATE "C" NOT NULL, -- Session of the event.
  number bigint NOT NULL, -- Position in the session, from 1 without gaps; the id of the event in the stream.
  type text NOT NULL, -- Event type, such as step:governed.
  step_id text COLLATE "C", -- Step of the event; null: about the session itself.
  occurred_at timestamptz NOT NULL, -- When it happened.
  data json NOT NULL, -- Payload of the event, as streamed.
  PRIMARY KEY (org_id, session_id, number)
);

-- Requests for a person to decide on a governed step.
CREATE TABLE approvals (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  approval_id text COLLATE "C" NOT NULL, -- Id, apr_….
  session_id text COLLATE "C" NOT NULL, -- Session of the step.
  step_id text COLLATE "C" NOT NULL, -- Step that waits for the decision.
  task_id text COLLATE "C", -- Task of the step; null: none.
  tool text NOT NULL, -- Tool that the agent wants to use.
  action_class text NOT NULL, -- Class of the action.
  arguments json, -- Arguments of the tool; null: none were sent.
  arguments_digest text COLLATE "C" NOT NULL, -- Digest of the step: its ids, tool, action class and arguments.
  status text NOT NULL, -- pending, approved, rejected or expired.
  stage text NOT NULL, -- Who may decide now: reviewer, or admin after the escalation.
  requested_at timestamptz NOT NULL, -- When the approval was requested.
  requested_by_id text COLLATE "C" NOT NULL, -- API key of the agent, which may not decide unless self_approval is set.
  review_deadline_at timestamptz NOT NULL, -- End of the review window.
  escalation_deadline_at timestamptz, -- End of the escalation window; null: the rule does not escalate.
  expires_at timestamptz NOT NULL, -- End of the current window: review_deadline_at, or escalation_deadline_at after an escalation.
  expiring_seconds double precision, -- How long before the end of a window to warn, in seconds; 0: no warning; null: a quarter of the window.
  expiring_notified boolean NOT NULL DEFAULT false, -- Whether the warning for the current window was sent.
  escalated_at timestamptz, -- When the approval was escalated; null: not escalated.
  timeout_action text NOT NULL, -- What happens to the step if nobody decides in time: allow or reject.
  self_approval boolean NOT NULL DEFAULT false, -- Whether the requesting key may decide.
  require_comment text NOT NULL DEFAULT 'never', -- Which decisions need a comment: never, reject or always.
  outcome text, -- What happened to the step: allow or reject; null while pending.
  decision_source text, -- What closed the approval: human, timeout or session_closed; null while pending.
  decided_at timestamptz, -- When the approval was closed; null while pending.
  decided_by_id text COLLATE "C", -- API key that decided; null: no person did.
  decided_by_name text, -- Name of that key at the time; null: no person did.
  comment text, -- Comment of the reviewer; null: none.
  next_due_at timestamptz, -- When the next transition by time is due (warn, escalate or expire); null: closed.
  arguments_bytes integer NOT NULL DEFAULT 0, -- Length of the arguments and the proposed arguments as text, in bytes; pages are limited by it.
  quorum json, -- How many people, of which groups, must approve; null: one person.
  approvals_required integer NOT NULL DEFAULT 1, -- Sum of the counts of the quorum.
  votes json, -- Approvals that count towards the quorum, with the keys that made the voters; null: none.
  approvals_given integer NOT NULL DEFAULT 0, -- Number of votes.
  proposed_arguments json, -- Arguments that the reviewer proposed instead; null: none.
  proposed_digest text COLLATE "C", -- Digest of the session, tool, action class and proposed arguments, by which steps find the proposal; null: none.
  proposed_by json, -- Groups of the key that proposed, and the keys that made it, at that time; null: no proposal.
  proposal_expires_at timestamptz, -- Until when the proposal allows a step; null: no proposal.
  proposal_step_id text COLLATE "C", -- Step that the proposal has allowed; null: none.
  rule_summary text, -- What the step does: the template of the rule with the arguments; null: the rule has no template.
  agent_summary text, -- What the agent claims that the step does; null: it claims nothing.
  arguments_line text, -- The most important arguments on one line, for lists; null: there are none.
  changes_requested boolean NOT NULL DEFAULT false, -- Whether it was rejected by requesting changes.
  newest_question integer NOT NULL DEFAULT 0, -- Number of the newest message of a reviewer; 0: none.
  newest_answer integer NOT NULL DEFAULT 0, -- Number of the newest message of the agent; 0: none.
  PRIMARY KEY (org_id, approval_id),
  CHECK (decision_source IN ('human', 'timeout', 'session_closed')),
  CHECK ((status = 'rejected') OR (NOT changes_requested)),
  CHECK (outcome IN ('allow', 'reject')),
  CONSTRAINT approvals_proposal_check CHECK ((proposed_digest IS NULL) OR (status = 'rejected')),
  CHECK ((status <> 'approved') OR (quorum IS NULL) OR (approvals_given >= approvals_required)),
  CHECK (require_comment IN ('never', 'reject', 'always')),
  CHECK (stage IN ('reviewer', 'admin')),
  CHECK (status IN ('pending', 'approved', 'rejected', 'expired')),
  CHECK (timeout_action IN ('allow', 'reject'))
) WITH (fillfactor=80);
CREATE INDEX approvals_closed ON approvals (org_id, decided_at, approval_id) WHERE decided_at IS NOT NULL;
CREATE INDEX approvals_due ON approvals (next_due_at, approval_id) INCLUDE (requested_at) WHERE next_due_at IS NOT NULL;
CREATE INDEX approvals_inbox ON approvals (org_id, expires_at, approval_id) WHERE status = 'pending';
CREATE INDEX approvals_proposed ON approvals (org_id, session_id, proposed_digest) WHERE (proposed_digest IS NOT NULL) AND (proposal_step_id IS NULL);
CREATE INDEX approvals_session ON approvals (org_id, session_id, approval_id DESC);
CREATE INDEX approvals_status ON approvals (org_id, status, approval_id DESC);
CREATE INDEX approvals_task ON approvals (org_id, task_id, approval_id DESC) WHERE task_id IS NOT NULL;
CREATE INDEX approvals_tool_decided ON approvals (org_id, tool, decided_at) WHERE decision_source = 'human';

-- Messages between reviewers and the agent about a pending approval.
CREATE TABLE approval_messages (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  approval_id text COLLATE "C" NOT NULL, -- Approval that the message is about.
  number integer NOT NULL, -- Position in the conversation, from 1 without gaps.
  session_id text COLLATE "C" NOT NULL, -- Session of the approval.
  sender text NOT NULL, -- Who speaks: reviewer or agent.
  sent_by_id text COLLATE "C" NOT NULL, -- API key that sent it.
  sent_by_name text NOT NULL, -- Name of that key at the time.
  sent_at timestamptz NOT NULL, -- When it was sent.
  text text NOT NULL, -- The text, redacted.
  PRIMARY KEY (org_id, approval_id, number),
  CHECK (sender IN ('reviewer', 'agent'))
);
CREATE INDEX approval_messages_session ON approval_messages (org_id, session_id);

-- The approval rules of an organization, as one document.
CREATE TABLE approval_rules (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  revision bigint NOT NULL, -- Raised with each change, for optimistic concurrency.
  rules json NOT NULL, -- Rules in the order of evaluation, as a JSON array.
  shadow_rules json, -- Rules that are evaluated beside the others and not enforced, as a JSON array in the order of evaluation; null: none.
  shadow_revision integer NOT NULL DEFAULT 0, -- Raised with each change of the shadow rules, also when they are removed.
  shadow_since timestamptz, -- When the shadow rules were stored; null: there are none.
  PRIMARY KEY (org_id)
);

-- What steps have used of the budgets of rules: a row for each rule, scope and set of values.
CREATE TABLE budget_counters (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  counter text COLLATE "C" NOT NULL, -- SHA-256 of the organization and the counter's name: list, rule, scope, window, pointers and values.
  version bigint NOT NULL, -- Raised with each step. The first one is the time of the insert in microseconds, so that none is used twice.
  entries json NOT NULL, -- Allowed steps that still count, oldest first, as arrays of time in milliseconds, number of steps and, unless it is zero, sum.
  expires_at timestamptz NOT NULL, -- When no entry counts any more, rounded up; the row is then deleted.
  PRIMARY KEY (org_id, counter)
) WITH (fillfactor=50);
CREATE INDEX budget_counters_expired ON budget_counters (expires_at);

-- Standing grants: approvals in advance for further steps of one agent session.
CREATE TABLE grants (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  grant_id text COLLATE "C" NOT NULL, -- Id, grt_….
  session_id text COLLATE "C" NOT NULL, -- Agent session whose steps it allows.
  approval_id text COLLATE "C" NOT NULL, -- Approval with whose decision it was made.
  step_id text COLLATE "C" NOT NULL, -- Step of that approval.
  scope text NOT NULL, -- Which steps it allows: arguments, tool or condition.
  tool text NOT NULL, -- Tool of these steps.
  action_class text NOT NULL, -- Action class of these steps.
  content_digest text COLLATE "C", -- SHA-256 of tool, action class and arguments; null: another scope.
  conditions json NOT NULL, -- Conditions on the arguments; empty: another scope.
  reason text NOT NULL, -- Why it was made; empty: no reason was given.
  uses integer NOT NULL DEFAULT 0, -- Number of steps that it has allowed.
  max_uses integer, -- How many steps it can allow; null: any number.
  last_used_at timestamptz, -- When it allowed a step last; null: never.
  created_at timestamptz NOT NULL, -- When it was made.
  created_by_id text COLLATE "C" NOT NULL, -- API key that created the row.
  created_by_name text NOT NULL, -- Name of that key at the time.
  expires_at timestamptz NOT NULL, -- When it ends at the latest.
  ended_at timestamptz, -- When it ended before that; null: it did not.
  end_reason text, -- used_up, revoked or session_closed; null: it did not end before its time.
  revoked_by_id text COLLATE "C", -- API key that revoked it; null: not revoked.
  revoked_by_name text, -- Name of that key at the time; null: not revoked.
  PRIMARY KEY (org_id, grant_id),
  CHECK (uses <= max_uses),
  CHECK ((ended_at IS NULL) = (end_reason IS NULL)),
  CHECK ((scope = 'arguments') = (content_digest IS NOT NULL)),
  CHECK (end_reason IN ('used_up', 'revoked', 'session_closed')),
  CHECK (scope IN ('arguments', 'tool', 'condition'))
) WITH (fillfactor=80);
CREATE UNIQUE INDEX grants_approval ON grants (org_id, approval_id);
CREATE INDEX grants_open ON grants (org_id, expires_at) WHERE ended_at IS NULL;
CREATE INDEX grants_open_session ON grants (org_id, session_id, expires_at) WHERE ended_at IS NULL;
CREATE INDEX grants_session ON grants (org_id, session_id, grant_id);
CREATE INDEX grants_tool ON grants (org_id, tool, grant_id);

-- Closed approvals per day and time to decision. Written by the statements that close and delete approvals; retention keeps counts. A count is the sum over all slots.
CREATE TABLE approval_counts (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  day date NOT NULL, -- Day of the close, in UTC.
  outcome text COLLATE "C" NOT NULL, -- approved, rejected, timeout or session_closed.
  bucket smallint NOT NULL, -- Time from the request to the decision of a person: from 1.1 to the power of bucket, to 1.1 to the power of bucket + 1 seconds. -1: no person decided.
  slot smallint NOT NULL, -- Part of the counter: concurrent statements add to different ones.
  closed bigint NOT NULL, -- Approvals.
  escalated bigint NOT NULL, -- Those that were escalated.
  PRIMARY KEY (org_id, day, outcome, bucket, slot)
) WITH (fillfactor=50);

-- Closed approvals per day and tool, and per day and person. Written by the statements that close and delete approvals; retention keeps counts. A count is the sum over all slots.
CREATE TABLE approval_group_counts (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  day date NOT NULL, -- Day of the close, in UTC.
  kind text COLLATE "C" NOT NULL, -- tool or person.
  name text COLLATE "C" NOT NULL, -- Tool, or API key that decided.
  outcome text COLLATE "C" NOT NULL, -- approved, rejected, timeout or session_closed.
  slot smallint NOT NULL, -- Part of the counter: concurrent statements add to different ones.
  closed bigint NOT NULL, -- Approvals.
  PRIMARY KEY (org_id, day, kind, name, outcome, slot)
) WITH (fillfactor=50);

-- Reviewer models: tasks whose answers are compared with the decisions of people.
CREATE TABLE reviewers (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  task_id text COLLATE "C" NOT NULL, -- Task that answers.
  state text NOT NULL DEFAULT 'watching', -- watching, or stopped: no rule lets it decide. It is asked in both.
  generation integer NOT NULL DEFAULT 1, -- Raised when it is stopped or restored: a decision by an earlier generation is not written.
  stopped_at timestamptz, -- When it was stopped; null: it is not. So are the columns below.
  stopped_reason text, -- Why it was stopped.
  stopped_by_id text COLLATE "C", -- API key that stopped it; null: the service did.
  stopped_by_name text, -- Name of that key at the time; null: the service stopped it.
  review_since timestamptz, -- Decisions of the model since then are listed for review; null: it is not stopped.
  restored_at timestamptz, -- When a person last let it decide again; null: never.
  tools json NOT NULL, -- Patterns of the tools about which it is asked, as a JSON array.
  amount json, -- JSON Pointer to an amount in the arguments, and the bounds of its bands; null: decisions are not told apart by an amount.
  daily_calls integer NOT NULL, -- Calls to the model per day at most.
  daily_tokens bigint NOT NULL, -- Tokens per day, after which the model is not called.
  used_on date, -- Day in UTC of the two columns below; null: it was never asked.
  used_calls integer NOT NULL DEFAULT 0, -- Calls of that day.
  used_tokens bigint NOT NULL DEFAULT 0, -- Tokens of that day.
  failures integer NOT NULL DEFAULT 0, -- Requests in a row without an answer.
  last_approval_id text COLLATE "C" NOT NULL, -- It was asked about the approvals up to this one.
  compared_at timestamptz NOT NULL, -- Its answers were compared with the approvals that were closed until then.
  lease_epoch integer NOT NULL DEFAULT 0, -- Fencing token: raised each time that a replica begins to ask.
  lease_until timestamptz, -- When another replica may ask; null: at once.
  created_at timestamptz NOT NULL, -- When it was created.
  created_by_id text COLLATE "C" NOT NULL, -- API key that created the row.
  created_by_name text NOT NULL, -- Name of that key at the time.
  PRIMARY KEY (org_id, task_id),
  CHECK (state IN ('watching', 'stopped')),
  CHECK ((state = 'stopped') = (stopped_at IS NOT NULL)),
  CHECK ((stopped_at IS NULL) = (stopped_reason IS NULL)),
  CHECK (stopped_reason IN ('by_person', 'bound_lost', 'fallen', 'reversed', 'provider_failed', 'release_changed'))
) WITH (fillfactor=50);
CREATE INDEX reviewers_lease ON reviewers (lease_until NULLS FIRST);

-- Answers of reviewer models about steps, and what people decided.
CREATE TABLE reviewer_answers (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  answer_id text COLLATE "C" NOT NULL, -- Id, rva_….
  task_id text COLLATE "C" NOT NULL, -- Reviewer that answered.
  release_id text COLLATE "C" NOT NULL, -- Release of the task that answered.
  dataset_id text COLLATE "C", -- Dataset version whose examples it saw; null: none. The first release gets one later.
  session_id text COLLATE "C" NOT NULL, -- Session of the step.
  step_id text COLLATE "C" NOT NULL, -- Step that it was asked about.
  approval_id text COLLATE "C", -- Approval of the step; null: the answer decided, and people were not asked.
  tool text NOT NULL, -- Tool of the step.
  band smallint NOT NULL, -- Number of the band of the amount, from 0; -1: the arguments have no amount.
  mode text NOT NULL, -- shadow or decided.
  answer text, -- approve, reject or unsure; null: it failed.
  reason text NOT NULL, -- Its reason, redacted, or why there is no answer.
  calls integer NOT NULL, -- Calls to the model.
  tokens bigint NOT NULL, -- Tokens of these calls, as far as the model server reports them.
  requested_at timestamptz NOT NULL, -- When the step was requested.
  created_at timestamptz NOT NULL, -- When it answered.
  verdict text, -- What people decided: approve or reject; none: no person decided, or the decision does not count; null: not known yet.
  decided_at timestamptz, -- When the approval was closed; null: it is not.
  counted boolean NOT NULL DEFAULT false, -- Whether it is part of reviewer_counts.
  wrong_at timestamptz, -- When a person marked the decision of the model as wrong; null: nobody did. So are the columns below.
  wrong_by_id text COLLATE "C", -- API key that marked it.
  wrong_by_name text, -- Name of that key at the time.
  PRIMARY KEY (org_id, task_id, answer_id),
  CHECK (mode IN ('shadow', 'decided')),
  CHECK (answer IN ('approve', 'reject', 'unsure')),
  CHECK (verdict IN ('approve', 'reject', 'none')),
  CHECK ((mode = 'decided') = (approval_id IS NULL))
) WITH (fillfactor=80);
CREATE UNIQUE INDEX reviewer_answers_step ON reviewer_answers (org_id, session_id, step_id, task_id);
CREATE INDEX reviewer_answers_to_review ON reviewer_answers (org_id, task_id, answer_id) WHERE mode = 'decided' AND wrong_at IS NULL;
CREATE INDEX reviewer_answers_decided ON reviewer_answers (org_id, task_id, release_id, tool, band, answer, created_at) WHERE mode = 'decided';
CREATE INDEX reviewer_answers_approval ON reviewer_answers (org_id, approval_id, task_id) WHERE approval_id IS NOT NULL;
CREATE INDEX reviewer_answers_open ON reviewer_answers (org_id, task_id, approval_id) WHERE verdict IS NULL AND approval_id IS NOT NULL;
CREATE INDEX reviewer_answers_recent ON reviewer_answers (org_id, task_id, release_id, tool, band, decided_at) WHERE counted AND answer = 'approve';
CREATE INDEX reviewer_answers_approved ON reviewer_answers (org_id, task_id, answer_id) WHERE counted AND answer = 'approve';
CREATE INDEX reviewer_answers_counted ON reviewer_answers (org_id, task_id, release_id, decided_at, answer_id) WHERE counted;
CREATE INDEX reviewer_answers_disagreed ON reviewer_answers (org_id, task_id, answer_id) WHERE counted AND answer <> 'unsure' AND answer <> verdict;

-- Compared answers of reviewer models per week. Written by the statements that compare and erase answers; retention keeps counts.
CREATE TABLE reviewer_counts (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  task_id text COLLATE "C" NOT NULL, -- Reviewer that answered.
  release_id text COLLATE "C" NOT NULL, -- Release of the task that answered.
  dataset_id text COLLATE "C" NOT NULL, -- Dataset version whose examples it saw; empty: none.
  tool text COLLATE "C" NOT NULL, -- Tool of the steps.
  band smallint NOT NULL, -- Number of the band of the amount.
  week date NOT NULL, -- Monday of the week of the decision, in UTC.
  answer text COLLATE "C" NOT NULL, -- approve, reject or unsure.
  verdict text COLLATE "C" NOT NULL, -- What people decided: approve or reject.
  answers bigint NOT NULL, -- Number of answers.
  PRIMARY KEY (org_id, task_id, release_id, dataset_id, tool, band, week, answer, verdict)
) WITH (fillfactor=50);

-- Sessions of coding agents that ask by HTTP hooks.
CREATE TABLE coding_sessions (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  key_id text COLLATE "C" NOT NULL, -- API key of the coding agent.
  agent text COLLATE "C" NOT NULL, -- The coding agent: claude-code.
  coding_session text COLLATE "C" NOT NULL, -- Its own id of the session.
  session_id text COLLATE "C", -- Newest agent session; null: none was created.
  created_at timestamptz NOT NULL, -- When it asked first.
  PRIMARY KEY (org_id, key_id, agent, coding_session)
);
CREATE INDEX coding_sessions_session ON coding_sessions (org_id, session_id);

-- Calls of coding agents that waited for a person longer than the request.
CREATE TABLE coding_calls (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  session_id text COLLATE "C" NOT NULL, -- Agent session.
  call_id text COLLATE "C" NOT NULL, -- The coding agent's id of the call that asked last.
  step_id text COLLATE "C" NOT NULL, -- Step of the call.
  content_digest text COLLATE "C" NOT NULL, -- Digest of tool, action class and arguments, by which the next call with the same content finds the step.
  waiting boolean NOT NULL, -- Whether it waits for a person; false: a later request got the decision.
  deferred boolean NOT NULL DEFAULT false, -- Whether the coding agent's run ends at this call.
  PRIMARY KEY (org_id, session_id, call_id)
);
CREATE INDEX coding_calls_waiting ON coding_calls (org_id, session_id, content_digest, call_id) WHERE waiting;
`
