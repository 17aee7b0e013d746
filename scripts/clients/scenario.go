// The scenario of scripts/clients.ts with the client that oapi-codegen generates. Arguments: base URL, admin key.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	api "countersign.test/clients/countersign"
)

var ctx = context.Background()

func connect(key string) *api.ClientWithResponses {
	return ok(api.NewClientWithResponses(os.Args[1], api.WithRequestEditorFn(func(_ context.Context, request *http.Request) error {
		request.Header.Set("authorization", "Bearer "+key)
		return nil
	})))
}

func ok[A any](value A, err error) A {
	if err != nil {
		panic(err)
	}
	return value
}

func check(condition bool, what string, body []byte) {
	if !condition {
		panic(what + ": " + string(body))
	}
}

func some[A any](value A) *A { return &value }

func main() {
	admin := connect(os.Args[2])
	started := time.Now().Add(-time.Minute)
	text := api.JsonSchema{Type: some(api.Object)}

	task := ok(admin.CreateTaskWithResponse(ctx, nil, api.NewTask{Name: "Go", InputSchema: text, AnswerSchema: text}))
	check(task.JSON201 != nil, "createTask", task.Body)
	id := task.JSON201.Id
	read := ok(admin.GetTaskWithResponse(ctx, id))
	provider, isExamples := ok(read.JSON200.Provider.ValueByDiscriminator()).(api.ExamplesProvider)
	check(isExamples && provider.Model == "nearest", "getTask", read.Body)
	tasks := ok(admin.ListTasksWithResponse(ctx, &api.ListTasksParams{Limit: some(int32(1))}))
	check(len(tasks.JSON200.Tasks) == 1, "listTasks", tasks.Body)
	missing := ok(admin.GetTaskWithResponse(ctx, "tsk_"+strings.Repeat("0", 32)))
	check(missing.ApplicationproblemJSON404.RequestId != "", "getTask of an unknown id", missing.Body)

	answer := api.JsonObject{"text": "b"}
	run := ok(admin.RunTaskWithResponse(ctx, id, nil, api.NewRun{Input: api.JsonObject{"text": "a"}, Answer: &answer}))
	check(run.JSON200 != nil && run.JSON200.CreatedAt.After(started), "runTask", run.Body)
	feedback := ok(admin.CreateFeedbackWithResponse(ctx, nil, api.NewFeedback{
		InferenceLogId: run.JSON200.TraceId, Score: some(api.NewFeedbackScoreMinus1), Correction: &api.JsonObject{"text": "c"},
	}))
	check(feedback.JSON201 != nil, "createFeedback", feedback.Body)
	listed := ok(admin.ListFeedbackWithResponse(ctx, &api.ListFeedbackParams{TaskId: &id, CreatedAfter: &started}))
	check(len(listed.JSON200.Feedback) == 1, "listFeedback", listed.Body)
	staged := ok(admin.StageFeedbackWithResponse(ctx, feedback.JSON201.Id))
	check(staged.JSON200.Status == "staged", "stageFeedback", staged.Body)
	preview := ok(admin.PreviewPromotionWithResponse(ctx, id, nil))
	promotion := ok(admin.PromoteFeedbackWithResponse(ctx, id, nil, api.PromoteRequest{
		ExpectedFeedbackRevision: preview.JSON200.FeedbackRevision,
	}))
	check(promotion.JSON201 != nil, "promoteFeedback", promotion.Body)
	examples := ok(admin.ListDatasetExamplesWithResponse(ctx, promotion.JSON201.Dataset.Id, nil))
	check(examples.JSON200.Examples[0].Answer["text"] == "c", "listDatasetExamples", examples.Body)
	// The generated code sends no Accept, and reads the type that it knows.
	acceptJson := func(_ context.Context, request *http.Request) error {
		request.Header.Set("accept", "application/json")
		return nil
	}
	export := ok(admin.ExportDatasetWithResponse(ctx, promotion.JSON201.Dataset.Id, nil, acceptJson))
	check(export.JSON200.Examples[0].Answer["text"] == "c", "exportDataset", export.Body)

	expiry := time.Now().Add(time.Hour)
	created := ok(admin.CreateApiKeyWithResponse(ctx, nil, api.NewApiKey{
		Name: "Go agent " + id, Preset: some(api.Preset("runtime")), ExpiresAt: &expiry,
	}))
	check(created.JSON201 != nil && created.JSON201.Key.ExpiresAt.Sub(expiry).Abs() < time.Second, "createApiKey", created.Body)
	agent := connect(created.JSON201.Secret)
	session := ok(agent.CreateAgentSessionWithResponse(ctx, nil, api.NewAgentSession{TaskId: &id}))
	check(session.JSON201 != nil, "createAgentSession", session.Body)
	sessionId := session.JSON201.SessionId
	step := ok(agent.SubmitStepWithResponse(ctx, sessionId, nil, api.StepRequest{
		StepId: "one", Tool: "mail", ActionClass: "write", Arguments: map[string]string{"to": "ada"},
	}))
	check(step.JSON200 != nil && step.JSON200.Decision == "pending", "submitStep", step.Body)
	approval := *step.JSON200.ApprovalId
	pending := ok(admin.ListApprovalsWithResponse(ctx, &api.ListApprovalsParams{
		Status: some(api.ApprovalStatus("pending")), SessionId: &sessionId,
	}))
	check(pending.JSON200.Approvals[0].ApprovalId == approval, "listApprovals", pending.Body)
	refused := ok(agent.DecideApprovalWithResponse(ctx, approval, api.DecideRequest{Decision: "approve"}))
	problem, isScope := ok(refused.ApplicationproblemJSON403.ValueByDiscriminator()).(api.InsufficientScope)
	check(isScope && problem.RequiredScope == "approvals.decide", "decideApproval without the scope", refused.Body)
	decided := ok(admin.DecideApprovalWithResponse(ctx, approval, api.DecideRequest{Decision: "approve"}))
	check(decided.JSON200 != nil && decided.JSON200.DecidedAt.After(started), "decideApproval", decided.Body)
	final := ok(agent.GetApprovalWithResponse(ctx, approval))
	check(*final.JSON200.Outcome == "allow", "getApproval", final.Body)
	outcome := ok(agent.ReportStepOutcomeWithResponse(ctx, sessionId, "one", api.OutcomeReport{Status: "succeeded"}))
	check(outcome.JSON200 != nil, "reportStepOutcome", outcome.Body)
	closed := ok(agent.CloseAgentSessionWithResponse(ctx, sessionId))
	check(closed.JSON200.Status == "closed", "closeAgentSession", closed.Body)
	events := ok(agent.StreamSessionEventsWithResponse(ctx, sessionId, &api.StreamSessionEventsParams{After: some(int64(0))}))
	check(strings.Contains(string(events.Body), "event: session:closed"), "streamSessionEvents", events.Body)
	fmt.Println("Go: the scenario succeeded")
}
