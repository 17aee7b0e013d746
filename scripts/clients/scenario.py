"""The scenario of scripts/clients.ts with the client that openapi-python-client generates. Arguments: base URL, admin key."""

import sys
from datetime import datetime, timedelta, timezone

from countersign_client import AuthenticatedClient
from countersign_client.api.agent_sessions import (
    close_agent_session,
    create_agent_session,
    report_step_outcome,
    stream_session_events,
    submit_step,
)
from countersign_client.api.api_keys import create_api_key
from countersign_client.api.approvals import decide_approval, get_approval, list_approvals
from countersign_client.api.datasets import export_dataset, list_dataset_examples
from countersign_client.api.feedback import (
    create_feedback,
    list_feedback,
    preview_promotion,
    promote_feedback,
    stage_feedback,
)
from countersign_client.api.tasks import create_task, get_task, list_tasks, run_task
from countersign_client.models import (
    DecideRequest,
    InsufficientScope,
    JsonObject,
    JsonSchema,
    NewAgentSession,
    NewApiKey,
    NewFeedback,
    NewRun,
    NewTask,
    NotFound,
    OutcomeReport,
    PromoteRequest,
    StepRequest,
)

base_url, admin_key = sys.argv[1:]
started = datetime.now(timezone.utc) - timedelta(minutes=1)


def connect(key: str) -> AuthenticatedClient:
    return AuthenticatedClient(base_url=base_url, token=key, raise_on_unexpected_status=True)


def json_object(**members: object) -> JsonObject:
    return JsonObject.from_dict(members)


admin = connect(admin_key)
text = JsonSchema.from_dict({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})

task = create_task.sync(client=admin, body=NewTask(name="Python", input_schema=text, answer_schema=text))
assert get_task.sync(task.id, client=admin).provider.kind == "examples"
assert len(list_tasks.sync(client=admin, limit=1).tasks) == 1
missing = get_task.sync("tsk_" + "0" * 32, client=admin)
assert isinstance(missing, NotFound) and missing.code == "NOT_FOUND" and missing.request_id

run = run_task.sync(task.id, client=admin, body=NewRun(input_=json_object(text="a"), answer=json_object(text="b")))
assert run.created_at > started
correction = json_object(text="c")
feedback = create_feedback.sync(
    client=admin, body=NewFeedback(inference_log_id=run.trace_id, score=-1, correction=correction)
)
listed = list_feedback.sync(client=admin, task_id=task.id, created_after=started).feedback
assert [one.id for one in listed] == [feedback.id]
assert stage_feedback.sync(feedback.id, client=admin).status == "staged"
preview = preview_promotion.sync(task.id, client=admin)
promotion = promote_feedback.sync(
    task.id,
    client=admin,
    body=PromoteRequest(base_dataset_id=None, expected_feedback_revision=preview.feedback_revision),
)
examples = list_dataset_examples.sync(promotion.dataset.id, client=admin).examples
assert examples[0].answer["text"] == "c"
# The generated code sends no `accept`, and reads the first type of the document.
pages = admin.with_headers({"accept": "application/json"})
assert export_dataset.sync(promotion.dataset.id, client=pages).examples[0].answer["text"] == "c"

expiry = datetime.now(timezone.utc) + timedelta(hours=1)
created = create_api_key.sync(
    client=admin, body=NewApiKey(name=f"Python agent {task.id}", preset="runtime", expires_at=expiry)
)
assert abs(created.key.expires_at - expiry) < timedelta(seconds=1)
agent = connect(created.secret)
session = create_agent_session.sync(client=agent, body=NewAgentSession(task_id=task.id))
step = submit_step.sync(
    session.session_id,
    client=agent,
    body=StepRequest(step_id="one", tool="mail", action_class="write", arguments={"to": "ada"}),
)
assert step.decision == "pending"
pending = list_approvals.sync(client=admin, status="pending", session_id=session.session_id).approvals
assert [one.approval_id for one in pending] == [step.approval_id]
refused = decide_approval.sync(step.approval_id, client=agent, body=DecideRequest(decision="approve"))
assert isinstance(refused, InsufficientScope) and refused.required_scope == "approvals.decide"
decided = decide_approval.sync(step.approval_id, client=admin, body=DecideRequest(decision="approve"))
assert decided.status == "approved" and decided.decided_at > started
assert get_approval.sync(step.approval_id, client=agent).outcome == "allow"
outcome = report_step_outcome.sync(
    session.session_id, "one", client=agent, body=OutcomeReport(status="succeeded", result={"sent": True})
)
assert outcome.occurred_at > started
assert close_agent_session.sync(session.session_id, client=agent).status == "closed"
events = stream_session_events.sync(session.session_id, client=agent, after=0)
assert events.count("event: ") >= 4 and "event: session:closed" in events
print("Python: the scenario succeeded")
