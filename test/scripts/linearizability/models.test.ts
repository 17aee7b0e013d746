import { assert, describe, it } from "@effect/vitest"
import { DateTime } from "effect"
import type { SessionEvent } from "../../../src/api/SessionStream.ts"
import type { Approval } from "../../../src/domain/approvals/Approval.ts"
import { ApprovalId, ClaimId, KeyId, SessionId, StepId } from "../../../src/domain/Ids.ts"
import { checkLinearizability } from "../../../scripts/linearizability/checkLinearizability.ts"
import type { Model } from "../../../scripts/linearizability/Model.ts"
import type { Operation } from "../../../scripts/linearizability/Operation.ts"
import {
  type DatasetCall,
  datasetAnswers,
  datasetModel,
  type Version
} from "../../../scripts/linearizability/models/datasetModel.ts"
import { type BudgetCall, budgetModel } from "../../../scripts/linearizability/models/budgetModel.ts"
import { createdAnswer, type KeyCall, keyModel } from "../../../scripts/linearizability/models/keyModel.ts"
import {
  type RulesCall,
  rulesAnswer,
  rulesModel
} from "../../../scripts/linearizability/models/rulesModel.ts"
import {
  approvalAnswer,
  claimAnswer,
  decisionAnswer,
  operationsByTime,
  type SessionCall,
  sessionModel,
  stepAnswer
} from "../../../scripts/linearizability/models/sessionModel.ts"
import { pendingApproval as newApproval } from "../../support/approvals.ts"

/** Operations one after the other; a call with the answer undefined was lost. */
const inSequence = <Call>(
  ...calls: ReadonlyArray<readonly [call: Call, answer: string | undefined]>
): ReadonlyArray<Operation<Call>> =>
  calls.map(([call, answer], index) => ({
    client: "any",
    call,
    answer,
    invokedAt: index * 10,
    answeredAt: answer === undefined ? Number.POSITIVE_INFINITY : index * 10 + 5
  }))

/** The same operations, all at the same time. */
const concurrently = <Call>(operations: ReadonlyArray<Operation<Call>>): ReadonlyArray<Operation<Call>> =>
  operations.map((operation) => ({ ...operation, invokedAt: 0, answeredAt: operation.answeredAt + 100 }))

const verdict = <State, Call>(
  model: Model<State, Call>,
  operations: ReadonlyArray<Operation<Call>>
): string => checkLinearizability(model, operations)._tag

describe("sessionModel", () => {
  const session_id = SessionId.make("ses_00000000000000000000000000000000")
  const approval_id = ApprovalId.make("apr_00000000000000000000000000000000")
  const ada = { id: KeyId.make("key_00000000000000000000000000000001"), name: "Ada" }
  const ben = { id: KeyId.make("key_00000000000000000000000000000002"), name: "Ben" }
  const step_id = StepId.make("pay")
  const requestedAt = 1_000_000
  const at = (millis: number) => DateTime.makeUnsafe(requestedAt + millis)

  const pendingApproval: Omit<Approval, "arguments"> = {
    ...newApproval,
    approval_id,
    session_id,
    step_id,
    tool: "pay",
    action_class: "act",
    requested_at: at(0),
    review_deadline_at: at(1_000),
    expires_at: at(1_000)
  }
  type GovernedEvent = Extract<SessionEvent, { readonly type: "step:governed" }>
  const governed = (
    id: number,
    decision: "pending" | "allow" | "reject",
    of: Pick<GovernedEvent, "step_id" | "approval_id"> = pendingApproval
  ): SessionEvent => ({
    id,
    type: "step:governed",
    session_id,
    step_id: of.step_id,
    occurred_at: at(0),
    tool: "pay",
    action_class: "act",
    decision,
    reason: "",
    rule_id: null,
    approval_id: of.approval_id,
    grant_id: null,
    decision_source: decision === "pending" ? null : "human",
    arguments_digest: "0"
  })
  const transitioned = (
    id: number,
    type: "approval:requested" | "approval:vote_recorded" | "approval:decided",
    approval: Partial<Approval> = {}
  ): SessionEvent => ({
    id,
    type,
    session_id,
    step_id: approval.step_id ?? step_id,
    occurred_at: at(0),
    approval: { ...pendingApproval, ...approval }
  })
  const approvedBy = (id: number, by: typeof ada) =>
    transitioned(id, "approval:decided", {
      status: "approved",
      outcome: "allow",
      decision_source: "human",
      decided_at: at(10),
      decided_by: by
    })
  const closed = (id: number): SessionEvent => ({
    id,
    type: "session:closed",
    session_id,
    step_id: null,
    occurred_at: at(20)
  })
  const requested = [governed(1, "pending"), transitioned(2, "approval:requested")]

  const step: SessionCall = { kind: "step", step: step_id, rule: "require_approval", changed: false }
  const approve = (
    by: typeof ada,
    sentAt = requestedAt + 10,
    relatives: ReadonlyArray<string> = []
  ): SessionCall => ({
    kind: "decide",
    step: step_id,
    decision: "approve",
    proposes: null,
    key: by.id,
    isAdmin: false,
    isRequester: false,
    relatives,
    sentAt
  })
  const readLog: SessionCall = { kind: "read the log" }
  const pending = stepAnswer("pending", approval_id)
  const allowed = stepAnswer("allow", approval_id)

  it("accept a step that a person approves, that is resumed, and whose session is closed", () => {
    const log = [...requested, approvedBy(3, ada), governed(4, "allow"), closed(5)]
    const operations = inSequence<SessionCall>(
      [step, pending],
      [
        { kind: "get the approval", step: step_id },
        approvalAnswer({ status: "pending", stage: "reviewer", by: null, source: null })
      ],
      [approve(ada), decisionAnswer("approved", ada.id)],
      [approve(ada), decisionAnswer("approved", ada.id)],
      [approve(ben), `APPROVAL_ALREADY_DECIDED: ${decisionAnswer("approved", ada.id)}`],
      [step, allowed],
      [{ kind: "close" }, "closed"],
      [step, "SESSION_CLOSED"],
      [readLog, "read"]
    )
    assert.strictEqual(verdict(sessionModel(log), operations), "Linearizable")
  })

  it("reject a second decision that was accepted, with and without an event of its own", () => {
    const operations = concurrently(
      inSequence<SessionCall>(
        [step, pending],
        [approve(ada), decisionAnswer("approved", ada.id)],
        [approve(ben), decisionAnswer("approved", ben.id)]
      )
    )
    const end = { ...inSequence<SessionCall>([readLog, "read"])[0]!, invokedAt: 1_000, answeredAt: 1_001 }
    for (const log of [
      [...requested, approvedBy(3, ada)],
      [...requested, approvedBy(3, ada), approvedBy(4, ben)]
    ]) {
      assert.strictEqual(verdict(sessionModel(log), [...operations, end]), "Violation")
    }
  })

  it("accept two votes for a quorum of two, and reject a vote that was lost or counted twice", () => {
    const votes = (...by: ReadonlyArray<typeof ada>) => ({
      quorum: [{ count: 2, group: null }],
      approvals_required: 2,
      approvals_given: by.length,
      votes: by.map((voted_by) => ({
        voted_by,
        voted_at: at(10),
        groups: [],
        stage: "reviewer" as const,
        comment: null
      }))
    })
    const log = (...voters: ReadonlyArray<typeof ada>) => [
      governed(1, "pending"),
      transitioned(2, "approval:requested", votes()),
      transitioned(3, "approval:vote_recorded", votes(ada)),
      transitioned(4, "approval:decided", {
        ...votes(...voters),
        status: "approved",
        outcome: "allow",
        decision_source: "human",
        decided_at: at(10),
        decided_by: voters.at(-1) ?? null
      })
    ]
    const first = decisionAnswer("pending", "nobody", [ada.id])
    const both = decisionAnswer("approved", ben.id, [ada.id, ben.id])
    const related = approve({ ...ben, id: KeyId.make(`key_${"9".repeat(32)}`) }, requestedAt + 10, [ada.id])
    const operations = inSequence<SessionCall>(
      [step, pending],
      [approve(ada), first],
      [approve(ada), first],
      [related, "SAME_PERSON"],
      [step, pending],
      [approve(ben), both],
      [approve(ada), both],
      [readLog, "read"]
    )
    assert.strictEqual(verdict(sessionModel(log(ada, ben)), operations), "Linearizable")
    const lost = inSequence<SessionCall>(
      [step, pending],
      [approve(ada), first],
      [approve(ben), decisionAnswer("approved", ben.id, [ben.id])],
      [readLog, "read"]
    )
    assert.strictEqual(verdict(sessionModel(log(ben)), lost), "Violation")
    const twice = inSequence<SessionCall>(
      [step, pending],
      [approve(ada), first],
      [approve(ada), decisionAnswer("approved", ada.id, [ada.id, ada.id])],
      [readLog, "read"]
    )
    assert.strictEqual(verdict(sessionModel(log(ada, ada)), twice), "Violation")
  })

  it("accept one claim of a step, and reject a second one, a lost one, and an outcome without it", () => {
    const claim = (n: number) => ClaimId.make(`clm_${String(n).padStart(32, "0")}`)
    const claimed = (
      id: number,
      n: number,
      type: "tool:claimed" | "tool:unknown" = "tool:claimed"
    ): SessionEvent => ({
      id,
      type,
      session_id,
      step_id,
      occurred_at: at(0),
      tool: "pay",
      claim_id: claim(n),
      attempt: 1,
      claimed_by: ada,
      expires_at: at(300_000)
    })
    const unknown = (id: number): SessionEvent => claimed(id, 1, "tool:unknown")
    const outcome = (id: number): SessionEvent => ({
      id,
      type: "tool:outcome",
      session_id,
      step_id,
      occurred_at: at(0),
      tool: "pay",
      status: "succeeded",
      error: null
    })
    const allowedAt = [governed(1, "allow", { step_id, approval_id: null })]
    const first: readonly [SessionCall, string] = [
      { kind: "step", step: step_id, rule: "allow", changed: false },
      stepAnswer("allow", null)
    ]
    const claims = (n: number): readonly [SessionCall, string] => [
      { kind: "claim", step: step_id },
      claimAnswer(claim(n))
    ]
    const report = (answer: string, by: string | null): readonly [SessionCall, string] => [
      { kind: "report the outcome", step: step_id, claim: by },
      answer
    ]
    const refused = "STEP_ALREADY_CLAIMED"
    const check = (
      log: ReadonlyArray<SessionEvent>,
      ...calls: ReadonlyArray<readonly [SessionCall, string]>
    ) => verdict(sessionModel(log), inSequence<SessionCall>(first, ...calls, [readLog, "read"]))
    assert.strictEqual(
      check(
        [...allowedAt, claimed(2, 1), outcome(3), closed(4)],
        claims(1),
        [{ kind: "claim", step: step_id }, refused],
        [first[0], refused],
        report("CLAIM_MISMATCH", null),
        report("CLAIM_MISMATCH", claim(2)),
        report("recorded", claim(1)),
        [{ kind: "claim", step: step_id }, refused],
        [{ kind: "close" }, "closed"]
      ),
      "Linearizable"
    )
    const close: readonly [SessionCall, string] = [{ kind: "close" }, "closed"]
    const executing = [...allowedAt, claimed(2, 1)]
    assert.strictEqual(check([...executing, unknown(3), closed(4)], claims(1), close), "Linearizable")
    assert.strictEqual(check([...executing, closed(3)], claims(1), close), "Violation")
    assert.strictEqual(check([...executing, claimed(3, 2)], claims(1), claims(2)), "Violation")
    assert.strictEqual(check(allowedAt, claims(1)), "Violation")
    assert.strictEqual(check(executing, claims(1), first), "Violation")
    assert.strictEqual(check([...executing, outcome(3)], claims(1), report("recorded", null)), "Violation")
  })

  describe("counter-proposals", () => {
    const other = StepId.make("pay less")
    const rejectedBy = (id: number, by: typeof ada, proposes: boolean) =>
      transitioned(id, "approval:decided", {
        status: "rejected",
        outcome: "reject",
        decision_source: "human",
        decided_at: at(10),
        decided_by: by,
        proposal: proposes ? { expires_at: at(3_600_000), used_by: null } : null
      })
    const allowedOther = (id: number) => governed(id, "allow", { step_id: other, approval_id })
    const stepOther: SessionCall = { kind: "step", step: other, rule: "require_approval", changed: false }
    const reject = (by: typeof ada, proposes: string | null): SessionCall => ({
      kind: "decide",
      step: step_id,
      decision: "reject",
      proposes,
      key: by.id,
      isAdmin: false,
      isRequester: false,
      relatives: [],
      sentAt: requestedAt + 10
    })
    const rejected = decisionAnswer("rejected", ada.id)
    const proposed = new Map([[approval_id, other]])
    const get: SessionCall = { kind: "get the approval", step: step_id }
    const shown = (usedBy: string | null) =>
      approvalAnswer({
        status: "rejected",
        stage: "reviewer",
        by: ada.id,
        source: "human",
        proposal: { usedBy }
      })

    it("accept a proposal that allows the step with its arguments, and that is decided once", () => {
      const log = [...requested, rejectedBy(3, ada, true), allowedOther(4)]
      const operations = inSequence<SessionCall>(
        [step, pending],
        [reject(ada, other), rejected],
        [get, shown(null)],
        [reject(ada, other), rejected],
        [reject(ada, "another"), `APPROVAL_ALREADY_DECIDED: ${rejected}`],
        [stepOther, allowed],
        [stepOther, allowed],
        [get, shown(other)],
        [readLog, "read"]
      )
      assert.strictEqual(verdict(sessionModel(log, proposed), operations), "Linearizable")
    })

    it("reject a step that waits although its arguments were proposed", () => {
      const waiting = { step_id: other, approval_id: ApprovalId.make(`apr_${"1".repeat(32)}`) }
      const log = [
        ...requested,
        rejectedBy(3, ada, true),
        governed(4, "pending", waiting),
        transitioned(5, "approval:requested", waiting)
      ]
      const operations = inSequence<SessionCall>(
        [step, pending],
        [reject(ada, other), rejected],
        [stepOther, stepAnswer("pending", waiting.approval_id)],
        [readLog, "read"]
      )
      assert.strictEqual(verdict(sessionModel(log, proposed), operations), "Violation")
      assert.strictEqual(
        verdict(
          sessionModel(log, new Map()),
          inSequence<SessionCall>([step, pending], [reject(ada, null), rejected])
        ),
        "Violation"
      )
    })

    it("reject a step that nothing proposed, one that was allowed before the rejection, and a proposal that was lost", () => {
      const log = [...requested, rejectedBy(3, ada, true), allowedOther(4)]
      const check = (
        model: Model<number, SessionCall>,
        ...calls: ReadonlyArray<readonly [call: SessionCall, answer: string | undefined]>
      ) => verdict(model, inSequence<SessionCall>(...calls))
      assert.strictEqual(
        check(
          sessionModel(log, new Map([[approval_id, "another"]])),
          [step, pending],
          [reject(ada, "another"), rejected],
          [stepOther, allowed]
        ),
        "Violation"
      )
      assert.strictEqual(
        check(
          sessionModel(log, proposed),
          [step, pending],
          [stepOther, allowed],
          [reject(ada, other), rejected]
        ),
        "Violation"
      )
      assert.strictEqual(
        check(
          sessionModel([...requested, rejectedBy(3, ada, false)], new Map()),
          [step, pending],
          [reject(ada, other), rejected],
          [readLog, "read"]
        ),
        "Violation"
      )
    })
  })

  it("reject a decision after which another client still reads a pending approval", () => {
    const log = [...requested, approvedBy(3, ada)]
    const operations = inSequence<SessionCall>(
      [step, pending],
      [approve(ada), decisionAnswer("approved", ada.id)],
      [step, pending],
      [readLog, "read"]
    )
    assert.strictEqual(verdict(sessionModel(log), operations), "Violation")
  })

  it("reject a step that a closed session accepted", () => {
    const log = [closed(1), ...[governed(2, "pending"), transitioned(3, "approval:requested")]]
    const operations = inSequence<SessionCall>(
      [{ kind: "close" }, "closed"],
      [step, pending],
      [readLog, "read"]
    )
    assert.strictEqual(verdict(sessionModel(log), operations), "Violation")
  })

  it("reject an event that no operation explains, and an answered step without its event", () => {
    const operations = inSequence<SessionCall>([step, pending], [readLog, "read"])
    assert.strictEqual(verdict(sessionModel(requested), operations), "Linearizable")
    assert.strictEqual(verdict(sessionModel([...requested, governed(3, "allow")]), operations), "Violation")
    assert.strictEqual(verdict(sessionModel([]), operations), "Violation")
  })

  it("explain events by a decision whose answer was lost", () => {
    const log = [...requested, approvedBy(3, ada)]
    const operations = inSequence<SessionCall>([step, pending], [approve(ada), undefined], [readLog, "read"])
    assert.strictEqual(verdict(sessionModel(log), operations), "Linearizable")
    assert.strictEqual(
      verdict(sessionModel(log), inSequence<SessionCall>([step, pending], [readLog, "read"])),
      "Violation"
    )
  })

  it("reject a decision that was sent after the deadline", () => {
    const log = [...requested, approvedBy(3, ada)]
    const operations = (sentAt: number) =>
      inSequence<SessionCall>([step, pending], [approve(ada, sentAt), decisionAnswer("approved", ada.id)])
    assert.strictEqual(verdict(sessionModel(log), operations(requestedAt + 900)), "Linearizable")
    assert.strictEqual(verdict(sessionModel(log), operations(requestedAt + 2_000)), "Violation")
  })

  it("let a window end at its deadline or later, but not before", () => {
    const expired = transitioned(3, "approval:decided", {
      status: "expired",
      outcome: "reject",
      decision_source: "timeout",
      decided_at: at(1_000)
    })
    const log = [...requested, expired]
    const check = (readAt: number) =>
      verdict(sessionModel(log), [
        ...inSequence<SessionCall>([step, pending]),
        ...operationsByTime(
          log,
          () => 0,
          (epochMillis) => epochMillis - requestedAt
        ),
        {
          client: "reader",
          call: { kind: "get the approval", step: step_id },
          answer: approvalAnswer({ status: "expired", stage: "reviewer", by: null, source: "timeout" }),
          invokedAt: readAt,
          answeredAt: readAt + 1
        }
      ])
    assert.strictEqual(check(1_100), "Linearizable")
    assert.strictEqual(check(500), "Violation")
  })

  it("reject an event that a stream showed before it can have happened", () => {
    const log = [...requested, approvedBy(3, ada)]
    const received = (number: number): SessionCall => ({ kind: "receive", number })
    const operations = (number: number) =>
      inSequence<SessionCall>(
        [step, pending],
        [received(number), "received"],
        [approve(ada), decisionAnswer("approved", ada.id)],
        [readLog, "read"]
      )
    assert.strictEqual(verdict(sessionModel(log), operations(2)), "Linearizable")
    assert.strictEqual(verdict(sessionModel(log), operations(3)), "Violation")
  })
})

describe("datasetModel", () => {
  const first: Version = { id: "dst_1", base: null, version: 1 }
  const second: Version = { id: "dst_2", base: "dst_1", version: 2 }
  const third: Version = { id: "dst_3", base: "dst_2", version: 3 }
  const model = datasetModel(first, ["a", "b"], [first, second, third])
  const promote = (base: string, staged: ReadonlyArray<string>, key: string | null = null): DatasetCall => ({
    kind: "promote",
    base,
    staged,
    key
  })
  const stage = (feedback: string): DatasetCall => ({ kind: "stage", feedback })

  it("accept promotions that take what was staged, each once", () => {
    const operations = inSequence<DatasetCall>(
      [stage("a"), "staged"],
      [{ kind: "preview" }, datasetAnswers.preview("dst_1", ["a"])],
      [promote("dst_1", ["a"], "k"), datasetAnswers.promoted(second, ["a"])],
      [promote("dst_1", ["a"], "k"), datasetAnswers.promoted(second, ["a"])],
      [promote("dst_1", ["a"]), "DATASET_BASE_CHANGED: dst_2"],
      [promote("dst_2", ["b"]), "NOTHING_STAGED"],
      [stage("b"), "staged"],
      [promote("dst_2", ["b"]), undefined],
      [{ kind: "list versions" }, datasetAnswers.versions(["dst_3", "dst_2", "dst_1"])],
      [{ kind: "get", feedback: "b" }, "promoted into dst_3"]
    )
    assert.strictEqual(verdict(model, operations), "Linearizable")
  })

  it("reject two promotions of one staged set", () => {
    const operations = concurrently(
      inSequence<DatasetCall>(
        [stage("a"), "staged"],
        [promote("dst_1", ["a"]), datasetAnswers.promoted(second, ["a"])],
        [promote("dst_1", ["a"]), datasetAnswers.promoted({ ...third, base: "dst_1" }, ["a"])]
      )
    )
    assert.strictEqual(verdict(model, operations), "Violation")
  })

  it("reject a preview that shows an old version with a new staged set", () => {
    const operations = inSequence<DatasetCall>(
      [stage("a"), "staged"],
      [promote("dst_1", ["a"]), datasetAnswers.promoted(second, ["a"])],
      [{ kind: "preview" }, datasetAnswers.preview("dst_1", [])]
    )
    assert.strictEqual(verdict(model, operations), "Violation")
  })

  it("accept that a correction staged during a promotion stays staged, and reject it of one staged before", () => {
    const operations = (invokedAt: number): ReadonlyArray<Operation<DatasetCall>> => [
      { client: "1", call: stage("a"), answer: "staged", invokedAt: 0, answeredAt: 1 },
      { client: "1", call: stage("b"), answer: "staged", invokedAt: 2, answeredAt: 4 },
      {
        client: "2",
        call: promote("dst_1", ["a"]),
        answer: datasetAnswers.promoted(second, ["a"]),
        invokedAt,
        answeredAt: 9
      },
      // The new version is not visible yet.
      {
        client: "3",
        call: { kind: "preview" },
        answer: datasetAnswers.preview("dst_1", ["a", "b"]),
        invokedAt: 6,
        answeredAt: 7
      }
    ]
    assert.strictEqual(verdict(model, operations(3)), "Linearizable")
    assert.strictEqual(verdict(model, operations(5)), "Violation")
  })

  it("accept the rejection of a staged correction, and reject the staging of a rejected one", () => {
    const rejection: DatasetCall = { kind: "reject", feedback: "a" }
    const staged: readonly [DatasetCall, string] = [stage("a"), "staged"]
    const rejected: readonly [DatasetCall, string] = [rejection, "rejected"]
    assert.strictEqual(verdict(model, inSequence<DatasetCall>(staged, rejected)), "Linearizable")
    assert.strictEqual(verdict(model, inSequence<DatasetCall>(rejected, staged)), "Violation")
  })
})

describe("keyModel", () => {
  const create = (body: string): KeyCall => ({ kind: "create", body })
  const list: KeyCall = { kind: "list the created" }

  it("accept repeated requests with one effect and one answer", () => {
    const effects = [{ id: "x", body: "a" }]
    const operations = inSequence<KeyCall>(
      [create("a"), undefined],
      [create("b"), "IDEMPOTENCY_KEY_REUSED"],
      [create("a"), "x"],
      [list, createdAnswer(effects)]
    )
    assert.strictEqual(verdict(keyModel(effects), operations), "Linearizable")
  })

  it("reject two effects, two answers, and an effect after nothing was requested", () => {
    const twice = [
      { id: "x", body: "a" },
      { id: "y", body: "a" }
    ]
    const check = (effects: typeof twice, ...calls: ReadonlyArray<readonly [KeyCall, string | undefined]>) =>
      verdict(keyModel(effects), inSequence<KeyCall>(...calls, [list, createdAnswer(effects)]))
    assert.strictEqual(check(twice, [create("a"), "x"], [create("a"), undefined]), "Violation")
    assert.strictEqual(check(twice, [create("a"), "x"], [create("a"), "y"]), "Violation")
    assert.strictEqual(check([{ id: "x", body: "a" }]), "Violation")
  })
})

describe("budgetModel", () => {
  const model = budgetModel({ count: 2, sum: 100 })
  const spend = (step: string, amount: number): BudgetCall => ({ step, amount })

  it("accept steps that fit, repeated answers, and a lost step that was counted", () => {
    const operations = inSequence<BudgetCall>(
      [spend("a", 60), undefined],
      [spend("b", 50), "reject"],
      [spend("c", 40), "allow"],
      [spend("a", 60), "allow"],
      [spend("b", 50), "reject"],
      [spend("d", 0), "reject"]
    )
    assert.strictEqual(verdict(model, operations), "Linearizable")
  })

  it("reject more steps or a larger sum than the budget, a rejection of a step that fits, and a step with two answers", () => {
    const check = (...calls: ReadonlyArray<readonly [BudgetCall, string]>) =>
      verdict(model, concurrently(inSequence<BudgetCall>(...calls)))
    const allow = (step: string, amount: number) => [spend(step, amount), "allow"] as const
    assert.strictEqual(check(allow("a", 1), allow("b", 1)), "Linearizable")
    assert.strictEqual(check(allow("a", 1), allow("b", 1), allow("c", 1)), "Violation")
    assert.strictEqual(check(allow("a", 60), allow("b", 41)), "Violation")
    assert.strictEqual(check(allow("a", 60), [spend("b", 40), "reject"]), "Violation")
    assert.strictEqual(check(allow("a", 60), [spend("a", 60), "reject"]), "Violation")
  })
})

describe("rulesModel", () => {
  const model = rulesModel({ revision: 1, mark: "start" })
  const replace = (revision: number, mark: string): RulesCall => ({ kind: "replace", revision, mark })

  it("accept one of two concurrent replacements of a revision, and reject both", () => {
    const check = (...calls: ReadonlyArray<readonly [RulesCall, string]>) =>
      verdict(model, concurrently(inSequence<RulesCall>(...calls)))
    const won = rulesAnswer({ revision: 2, mark: "a" })
    assert.strictEqual(check([replace(1, "a"), won], [replace(1, "b"), "RULES_CHANGED: 2"]), "Linearizable")
    assert.strictEqual(
      check([replace(1, "a"), won], [replace(1, "b"), rulesAnswer({ revision: 2, mark: "b" })]),
      "Violation"
    )
  })

  it("reject a stale read", () => {
    const operations = inSequence<RulesCall>(
      [replace(1, "a"), rulesAnswer({ revision: 2, mark: "a" })],
      [{ kind: "get" }, rulesAnswer({ revision: 1, mark: "start" })]
    )
    assert.strictEqual(verdict(model, operations), "Violation")
  })
})
