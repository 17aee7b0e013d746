//! The scenario of scripts/clients.ts with the client that OpenAPI Generator generates. Arguments: base URL, admin key.

use countersign::apis::configuration::Configuration;
use countersign::apis::{agent_sessions_api, api_keys_api, approvals_api, end_user_feedback_api, feedback_api, tasks_api, Error};
use countersign::models::*;
use serde_json::{json, Value};
use std::collections::HashMap;

type Failure = Box<dyn std::error::Error>;

fn connect(base_url: &str, key: &str) -> Configuration {
    Configuration {
        base_path: base_url.to_owned(),
        bearer_access_token: Some(key.to_owned()),
        ..Configuration::default()
    }
}

fn object(value: Value) -> HashMap<String, Value> {
    serde_json::from_value(value).unwrap()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let given: Vec<String> = std::env::args().collect();
    let admin = connect(&given[1], &given[2]);
    let schema: JsonSchema = serde_json::from_value(json!({ "type": "object" }))?;

    let task = tasks_api::create_task(&admin, NewTask::new("Rust".into(), schema.clone(), schema), None).await?;
    assert_eq!(tasks_api::list_tasks(&admin, Some(1), None).await?.tasks.len(), 1);
    match tasks_api::get_task(&admin, &format!("tsk_{}", "0".repeat(32))).await {
        Err(Error::ResponseError(response)) => assert_eq!(response.status.as_u16(), 404),
        other => panic!("an unknown task: {other:?}"),
    }
    let mut new_run = NewRun::new(object(json!({ "text": "a" })));
    new_run.answer = Some(object(json!({ "text": "b" })));
    let run = tasks_api::run_task(&admin, &task.id, new_run, None, None).await?;
    let mut new_feedback: NewFeedback = NewFeedback::new(run.trace_id.clone());
    // `None` leaves the member out, `Some(None)` sends null.
    new_feedback.score_value = Some(Some(-0.5));
    new_feedback.correction = Some(Some(object(json!({ "text": "c" }))));
    let feedback = feedback_api::create_feedback(&admin, new_feedback, None).await?;
    let token = feedback_api::create_feedback_token(&admin, &run.trace_id, None).await?;
    let mut opinion = EndUserFeedback::new();
    opinion.score_value = Some(Some(0.5));
    let visitor = connect(&given[1], &token.token);
    end_user_feedback_api::submit_end_user_feedback(&visitor, &run.trace_id, opinion).await?;
    let staged = feedback_api::stage_feedback(&admin, &feedback.id).await?;
    assert_eq!(staged.status, FeedbackStatus::Staged);
    let preview = feedback_api::preview_promotion(&admin, &task.id, None, None).await?;
    let promote = PromoteRequest::new(None, preview.feedback_revision);
    let promotion = feedback_api::promote_feedback(&admin, &task.id, promote, None).await?;
    assert_eq!(promotion.promoted.len(), 1);

    let mut new_key = NewApiKey::new(format!("Rust agent {}", task.id));
    new_key.preset = Some(Preset::Runtime);
    let created = api_keys_api::create_api_key(&admin, new_key, None).await?;
    let agent = connect(&given[1], &created.secret);
    let mut new_session = NewAgentSession::new();
    new_session.task_id = Some(Some(task.id.clone()));
    let session = agent_sessions_api::create_agent_session(&agent, new_session, None).await?;
    let mut request = StepRequest::new("one".into(), "mail".into(), "write".into());
    request.arguments = Some(Some(json!({ "to": "ada" })));
    let step = agent_sessions_api::submit_step(&agent, &session.session_id, request, None, None, None).await?;
    assert_eq!((step.decision, step.decision_source), (StepDecision::Pending, None));
    let approval = step.approval_id.ok_or("an approval")?;
    let status = Some(ApprovalStatus::Pending);
    let pending = approvals_api::list_approvals(&admin, None, None, status, Some(&session.session_id), None).await?;
    assert_eq!(pending.approvals[0].approval_id, approval);
    let refused = approvals_api::decide_approval(&agent, &approval, DecideRequest::new(Decision::Approve)).await;
    assert!(matches!(refused, Err(Error::ResponseError(response)) if response.status.as_u16() == 403));
    let decided = approvals_api::decide_approval(&admin, &approval, DecideRequest::new(Decision::Approve)).await?;
    assert!(decided.decided_at.is_some());
    let report = OutcomeReport::new(OutcomeStatus::Succeeded);
    agent_sessions_api::report_step_outcome(&agent, &session.session_id, "one", report).await?;
    agent_sessions_api::close_agent_session(&agent, &session.session_id).await?;
    println!("Rust: the scenario succeeded");
    Ok(())
}
