"""The scenario of scripts/clients.ts with the Python client that OpenAPI Generator generates. Arguments: base URL, admin key."""

import sys
from datetime import datetime, timedelta, timezone

import countersign as api
from countersign.exceptions import ForbiddenException, NotFoundException

base_url, admin_key = sys.argv[1:]
started = datetime.now(timezone.utc) - timedelta(minutes=1)


def connect(key: str) -> api.ApiClient:
    configuration = api.Configuration(host=base_url, access_token=key)
    # The generator's own format of times in queries has an offset without a colon, which RFC 3339 does not know.
    configuration.datetime_format = "%Y-%m-%dT%H:%M:%S.%fZ"
    return api.ApiClient(configuration)


admin = connect(admin_key)
tasks, feedback = api.TasksApi(admin), api.FeedbackApi(admin)
text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

task = tasks.create_task(api.NewTask(name="Python 2", input_schema=text, answer_schema=text))
assert tasks.get_task(task.id).provider.actual_instance.kind == "examples"
assert len(tasks.list_tasks(limit=1).tasks) == 1
try:
    tasks.get_task("tsk_" + "0" * 32)
    raise SystemExit("an unknown task was found")
except NotFoundException as problem:
    assert problem.data.code == "NOT_FOUND" and problem.data.request_id

run = tasks.run_task(task.id, api.NewRun(input={"text": "a"}, answer={"text": "b"}))
assert run.created_at > started
given = feedback.create_feedback(
    api.NewFeedback(inference_log_id=run.trace_id, score=-1, correction={"text": "c"})
)
token = feedback.create_feedback_token(run.trace_id)
visitor = api.EndUserFeedbackApi(connect(token.token))
visitor.submit_end_user_feedback(run.trace_id, api.EndUserFeedback(score_value=0.5))
assert len(feedback.list_feedback(task_id=task.id, created_after=started).feedback) == 2
assert feedback.stage_feedback(given.id).status == "staged"
preview = feedback.preview_promotion(task.id)
promotion = feedback.promote_feedback(
    task.id,
    api.PromoteRequest(base_dataset_id=None, expected_feedback_revision=preview.feedback_revision),
)
datasets = api.DatasetsApi(admin)
assert datasets.export_dataset(promotion.dataset.id).examples[0].answer == {"text": "c"}
assert datasets.export_dataset_chats(promotion.dataset.id).chats[0].messages[-1].role == "assistant"
entries = api.AuditLogApi(admin).export_audit_log(limit=1)
assert entries.entries[0].position == 1 and entries.next_cursor
report = api.ApprovalRulesApi(admin).test_approval_rules(api.TestApprovalRules(rules=[]))
assert report.result.steps == 0 and report.steps == []

expiry = datetime.now(timezone.utc) + timedelta(hours=1)
created = api.APIKeysApi(admin).create_api_key(
    api.NewApiKey(name=f"Python 2 agent {task.id}", preset="runtime", expires_at=expiry)
)
assert abs(created.key.expires_at - expiry) < timedelta(seconds=1)
agent = connect(created.secret)
sessions = api.AgentSessionsApi(agent)
session = sessions.create_agent_session(api.NewAgentSession(task_id=task.id))
step = sessions.submit_step(
    session.session_id,
    api.StepRequest(step_id="one", tool="mail", action_class="write", arguments={"to": "ada"}),
)
assert step.decision == "pending" and step.decision_source is None
approvals = api.ApprovalsApi(admin)
pending = approvals.list_approvals(status="pending", session_id=session.session_id).approvals
assert [one.approval_id for one in pending] == [step.approval_id]
approve = api.DecideRequest(decision="approve")
try:
    api.ApprovalsApi(agent).decide_approval(step.approval_id, approve)
    raise SystemExit("an agent approved its own step")
except ForbiddenException as problem:
    assert problem.data.actual_instance.required_scope == "approvals.decide"
assert approvals.decide_approval(step.approval_id, approve).decided_at > started
outcome = sessions.report_step_outcome(
    session.session_id, "one", api.OutcomeReport(status="succeeded", result={"sent": True})
)
assert outcome.occurred_at > started
assert sessions.close_agent_session(session.session_id).status == "closed"
event = api.WebhookEvent.from_json(
    '{"id":"evt_00000000000000000000000000000000","type":"test","org_id":"org_00000000000000000000000000000000",'
    '"occurred_at":"2026-11-21T05:00:02.250Z","approval":null}'
)
assert event.type == "test" and event.approval is None
print("Python (OpenAPI Generator): the scenario succeeded")
