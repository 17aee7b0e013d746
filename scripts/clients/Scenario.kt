// The scenario of scripts/clients.ts with the client that OpenAPI Generator generates. Arguments: base URL, admin key.

import countersign.apis.*
import countersign.infrastructure.ApiClient
import countersign.infrastructure.ClientException
import countersign.models.*
import java.time.OffsetDateTime

fun refuses(status: Int, call: () -> Unit) {
    try {
        call()
    } catch (problem: ClientException) {
        if (problem.statusCode == status) return
        throw problem
    }
    throw AssertionError("no $status")
}

fun main(args: Array<String>) {
    val (baseUrl, adminKey) = args
    // The generated client has one key for all of its operations.
    fun <A> by(key: String, call: () -> A): A {
        ApiClient.accessToken = key
        return call()
    }
    val started = OffsetDateTime.now().minusMinutes(1)
    val tasks = TasksApi(baseUrl)
    val feedback = FeedbackApi(baseUrl)
    val sessions = AgentSessionsApi(baseUrl)
    val approvals = ApprovalsApi(baseUrl)
    // A map: its declared property `type` is not serialized.
    val schema = JsonSchema().apply { put("type", "object") }

    ApiClient.accessToken = adminKey
    val task = tasks.createTask(NewTask(name = "Kotlin", inputSchema = schema, answerSchema = schema))
    check(tasks.listTasks(limit = 1).tasks.size == 1)
    refuses(404) { tasks.getTask("tsk_" + "0".repeat(32)) }
    val run = tasks.runTask(task.id, NewRun(input = mapOf("text" to "a"), answer = mapOf("text" to "b")))
    check(run.createdAt.isAfter(started))
    val given = feedback.createFeedback(
        NewFeedback(inferenceLogId = run.traceId, scoreValue = -0.5, correction = mapOf("text" to "c"))
    )
    val token = feedback.createFeedbackToken(run.traceId, NewFeedbackToken())
    by(token.token) {
        EndUserFeedbackApi(baseUrl).submitEndUserFeedback(run.traceId, EndUserFeedback(scoreValue = 0.5))
    }
    ApiClient.accessToken = adminKey
    check(feedback.stageFeedback(given.id).status == FeedbackStatus.staged)
    val preview = feedback.previewPromotion(task.id)
    val promotion = feedback.promoteFeedback(
        task.id,
        PromoteRequest(baseDatasetId = null, expectedFeedbackRevision = preview.feedbackRevision)
    )
    val page = DatasetsApi(baseUrl).exportDataset(promotion.dataset.id)
    check(page.examples[0].answer == mapOf("text" to "c"))

    val created = APIKeysApi(baseUrl).createApiKey(NewApiKey(name = "Kotlin agent ${task.id}", preset = Preset.runtime))
    val (session, step) = by(created.secret) {
        val session = sessions.createAgentSession(newAgentSession = NewAgentSession(taskId = task.id))
        val request = StepRequest(stepId = "one", tool = "mail", actionClass = "write", arguments = mapOf("to" to "ada"))
        session to sessions.submitStep(session.sessionId, request)
    }
    check(step.decision == StepDecision.pending && step.decisionSource == null)
    val approval = step.approvalId ?: error("an approval")
    refuses(403) { approvals.decideApproval(approval, DecideRequest(decision = Decision.approve)) }
    val decided = by(adminKey) { approvals.decideApproval(approval, DecideRequest(decision = Decision.approve)) }
    check(decided.decidedAt?.isAfter(started) == true)
    by(created.secret) {
        sessions.reportStepOutcome(session.sessionId, "one", OutcomeReport(status = OutcomeStatus.succeeded))
        sessions.closeAgentSession(session.sessionId)
    }
    println("Kotlin: the scenario succeeded")
}
