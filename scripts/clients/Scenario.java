// The scenario of scripts/clients.ts with the client that OpenAPI Generator generates. Arguments: base URL, admin key.

import countersign.ApiClient;
import countersign.ApiException;
import countersign.api.*;
import countersign.model.*;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;

public final class Scenario {
  private static ApiClient connect(String baseUrl, String key) {
    ApiClient client = new ApiClient();
    client.updateBaseUri(baseUrl);
    client.setRequestInterceptor(request -> request.header("authorization", "Bearer " + key));
    return client;
  }

  private static void check(boolean condition, String name) {
    if (!condition) throw new AssertionError(name);
  }

  private interface Call {
    void run() throws ApiException;
  }

  private static void refuses(int status, Call call) throws ApiException {
    try {
      call.run();
    } catch (ApiException problem) {
      if (problem.getCode() == status && problem.getResponseBody().contains("request_id")) return;
      throw problem;
    }
    throw new AssertionError("no " + status);
  }

  public static void main(String[] args) throws Exception {
    ApiClient admin = connect(args[0], args[1]);
    OffsetDateTime started = OffsetDateTime.now().minusMinutes(1);
    TasksApi tasks = new TasksApi(admin);
    FeedbackApi feedback = new FeedbackApi(admin);
    JsonSchema schema = new JsonSchema().type(JsonSchema.TypeEnum.OBJECT);

    SavedTask task = tasks.createTask(new NewTask().name("Java").inputSchema(schema).answerSchema(schema), null);
    check(tasks.getTask(task.getId()).getProvider().getActualInstance() instanceof ExamplesProvider, "getTask");
    check(tasks.listTasks(1, null).getTasks().size() == 1, "listTasks");
    refuses(404, () -> tasks.getTask("tsk_" + "0".repeat(32)));
    NewRun newRun = new NewRun().input(Map.of("text", "a")).answer(Map.of("text", "b"));
    TaskRun run = tasks.runTask(task.getId(), newRun, null, null);
    check(run.getCreatedAt().isAfter(started), "runTask");
    NewFeedback correction = new NewFeedback().inferenceLogId(run.getTraceId())
        .score(NewFeedback.ScoreEnum.NUMBER_MINUS_1).correction(Map.of("text", "c"));
    Feedback given = feedback.createFeedback(correction, null);
    CreatedFeedbackToken token = feedback.createFeedbackToken(run.getTraceId(), new NewFeedbackToken());
    new EndUserFeedbackApi(connect(args[0], token.getToken()))
        .submitEndUserFeedback(run.getTraceId(), new EndUserFeedback().scoreValue(0.5));
    check(feedback.stageFeedback(given.getId()).getStatus() == FeedbackStatus.STAGED, "stageFeedback");
    PromotionPreview preview = feedback.previewPromotion(task.getId(), null, null);
    PromoteRequest promote = new PromoteRequest().baseDatasetId(null)
        .expectedFeedbackRevision(preview.getFeedbackRevision());
    PromotionResult promotion = feedback.promoteFeedback(task.getId(), promote, null);
    ExamplePage page = new DatasetsApi(admin).exportDataset(promotion.getDataset().getId(), null, null);
    check(page.getExamples().get(0).getAnswer().equals(Map.of("text", "c")), "exportDataset");
    ChainedAuditEntryPage entries = new AuditLogApi(admin).exportAuditLog(1, null, null);
    check(entries.getEntries().get(0).getPosition() == 1 && entries.getNextCursor() != null, "exportAuditLog");
    RuleTestReport report = new ApprovalRulesApi(admin).testApprovalRules(new TestApprovalRules().rules(List.of()));
    check(report.getSteps().isEmpty(), "testApprovalRules");

    NewApiKey newKey = new NewApiKey().name("Java agent " + task.getId()).preset(Preset.RUNTIME);
    CreatedApiKey created = new ApiKeysApi(admin).createApiKey(newKey, null);
    ApiClient agent = connect(args[0], created.getSecret());
    AgentSessionsApi sessions = new AgentSessionsApi(agent);
    AgentSession session = sessions.createAgentSession(new NewAgentSession().taskId(task.getId()), null);
    StepRequest request = new StepRequest().stepId("one").tool("mail").actionClass("write")
        .arguments(Map.of("to", "ada"));
    GovernedStep step = sessions.submitStep(session.getSessionId(), request, null, null, null);
    check(step.getDecision() == StepDecision.PENDING && step.getDecisionSource() == null, "submitStep");
    String approval = step.getApprovalId();
    ApprovalsApi approvals = new ApprovalsApi(admin);
    List<Approval> pending = approvals
        .listApprovals(null, null, ApprovalStatus.PENDING, session.getSessionId(), null).getApprovals();
    check(pending.get(0).getApprovalId().equals(approval), "listApprovals");
    DecideRequest approve = new DecideRequest().decision(Decision.APPROVE);
    refuses(403, () -> new ApprovalsApi(agent).decideApproval(approval, approve));
    check(approvals.decideApproval(approval, approve).getDecidedAt().isAfter(started), "decideApproval");
    OutcomeReport outcome = new OutcomeReport().status(OutcomeStatus.SUCCEEDED);
    check(sessions.reportStepOutcome(session.getSessionId(), "one", outcome).getOccurredAt().isAfter(started),
        "reportStepOutcome");
    sessions.closeAgentSession(session.getSessionId());
    System.out.println("Java: the scenario succeeded");
  }
}
