import { Cause, Exit } from "effect"
import { SqlError } from "effect/sql"
import type { ApprovalRule, Ruling } from "../../../src/domain/approvals/ApprovalRule.ts"
import { evaluateRules } from "../../../src/domain/approvals/CompiledRules.ts"
import { proposalDigest } from "../../../src/domain/approvals/StepDigest.ts"
import type { GovernedStep } from "../../../src/domain/approvals/AgentSession.ts"
import type { SessionId, StepId } from "../../../src/domain/Ids.ts"
import type { Principal } from "../../../src/domain/identity/Principal.ts"
import type { QueueRow } from "../../../src/server/delivery/Delivery/QueuedDelivery.ts"
import type { Fault } from "../core/Faults.ts"
import {
  type ApprovalEntry,
  approvalKey,
  type ApprovalModel,
  type Change,
  type Commit,
  type EventEntry,
  type GrantEntry,
  grantKey,
  sessionKey,
  type StepEntry,
  stepKey
} from "./ApprovalModel.ts"
import { approvalEventsOf, closesApproval, sessionEventsOf } from "./expectedEvents.ts"
import type { Follower } from "./Follower.ts"
import { GROUPS } from "./Plan.ts"
import type { Replica } from "./Replica.ts"
import type { World } from "./World.ts"

/** How late a transition by time may be while nothing disturbs: the worker's pause of a second, and some slow statements, in milliseconds. */
const LATE_MILLIS = 8_000

/** How long a stream may be behind while nothing disturbs: less than the pause of the poll, which would find lost signals. */
const BEHIND_MILLIS = 7_000

/** For how long after a fault its consequences may last: connections that are found to be lost, and a start. */
const AFTERMATH_MILLIS = 20_000

/** How far the service's time may be from the store's while nothing disturbs, in milliseconds. */
const CLOCK_MILLIS = 700

/** After a fault of the store or of clocks, the service's time may be wrong until two measurements have followed, in milliseconds. */
const CLOCK_AFTERMATH_MILLIS = 65_000

/** A replica whose first measurement of the time was slow repeats it within this time, in milliseconds. */
const START_MILLIS = 12_000

const CLOCK_FAULTS: ReadonlyArray<Fault["_tag"]> = [
  "StepStoreClock",
  "SlowStore",
  "FreezeStore",
  "RestartStore",
  "Freeze",
  "Suspend",
  "Partition",
  "SilenceConnections"
]

/** One version of something that an organization has, until the next one. */
interface Version<A> {
  readonly from: number
  readonly value: A
}

/** The versions over time of what each organization has. */
class History<A> {
  readonly #versions = new Map<string, Array<Version<A>>>()

  add(org_id: string, from: number, value: A): void {
    const list = this.#versions.get(org_id) ?? []
    list.push({ from, value })
    this.#versions.set(org_id, list)
  }

  latest(org_id: string): A | undefined {
    return this.#versions.get(org_id)?.at(-1)?.value
  }

  /** What was current at any time from `from` to `to`. */
  during(org_id: string, from: number, to: number): ReadonlyArray<A> {
    const list = this.#versions.get(org_id) ?? []
    return list
      .filter((one, index) => one.from <= to && (list[index + 1]?.from ?? Infinity) >= from)
      .map(({ value }) => value)
  }
}

/** An endpoint's subscriptions: event types by its id. */
type Subscriptions = ReadonlyMap<string, ReadonlyArray<string>>

/**
 * What must hold at each commit, at each answer and for each follower, whatever happens. It sees what no replica can: all that was
 * committed, and everything that clients got.
 */
export class Checks {
  readonly world: World
  readonly model: ApprovalModel
  /** The first broken invariant. */
  broken: string | undefined
  /** How long after the last fault everything due must have happened. */
  readonly settleMillis = AFTERMATH_MILLIS + LATE_MILLIS
  readonly counts = {
    requests: 0,
    failed: 0,
    events: 0,
    transitions: 0,
    decisions: 0,
    refused: 0,
    queued: 0,
    streams: 0,
    received: 0,
    /** Steps that counter-proposals allowed. */
    proposals: 0,
    /** Steps that standing grants allowed. */
    grants: 0
  }
  readonly #names = new Map<string, string>()
  /** The number of the last committed event of each session. */
  readonly #lastEvents = new Map<string, number>()
  /** When each approval was closed, in milliseconds of the simulation. */
  readonly #closedAt = new Map<string, number>()
  /** When each grant was made, in milliseconds of the simulation. */
  readonly #grantedAt = new Map<string, number>()
  readonly #rules = new History<ReadonlyArray<ApprovalRule>>()
  readonly #subscriptions = new History<Subscriptions>()
  /** Outcomes that were acknowledged, by step. */
  readonly #outcomes = new Set<string>()

  constructor(world: World) {
    this.world = world
    this.model = world.model
    world.model.committed = (commit) => this.#committed(commit)
  }

  fail(reason: string): void {
    if (this.broken !== undefined) return
    this.broken = reason
    this.world.simulation.log(() => `BROKEN: ${reason}`)
  }

  /** A short name of a session, an approval or a step, whose ids differ from run to run. */
  nameOf(kind: string, id: string): string {
    const name =
      this.#names.get(id) ??
      `${kind} ${[...this.#names.values()].filter((one) => one.startsWith(kind)).length}`
    this.#names.set(id, name)
    return name
  }

  opened(org_id: string, session: number, session_id: SessionId): void {
    this.#names.set(session_id, `session ${session}`)
    if (this.model.sessions.committedRow(sessionKey({ org_id, session_id })) === undefined)
      this.fail(`session ${session} was acknowledged, and is not stored`)
  }

  /** Every answer: a request may fail only because the store does not answer. */
  answered(replica: Replica, exit: Exit.Exit<unknown, unknown>): void {
    if (Exit.isSuccess(exit) || Cause.hasInterrupts(exit.cause)) return
    const defects = exit.cause.reasons.filter(Cause.isDieReason).map(({ defect }) => defect)
    if (defects.length === 0) return
    this.counts.failed++
    for (const defect of defects) {
      if (!SqlError.isSqlError(defect)) this.fail(`${replica.host.name}: a request failed: ${String(defect)}`)
    }
    if (!this.world.faults.isDisturbed(AFTERMATH_MILLIS)) {
      this.world.simulation.log(
        () => `${replica.host.name}: a request failed without a fault: ${String(defects[0])}`
      )
    }
  }

  stepAnswered(
    org_id: string,
    session_id: SessionId,
    step_id: StepId,
    from: number,
    exit: Exit.Exit<GovernedStep, { readonly _tag: string }>
  ): void {
    const name = `${step_id} of ${this.nameOf("session", session_id)}`
    const key = stepKey({ org_id, session_id, step_id })
    const step = this.model.steps.committedRow(key)
    const refusal = refusalOf(exit)
    if (refusal !== undefined) {
      if (refusal === "STEP_ALREADY_COMPLETED" && step?.outcome_at === null)
        this.fail(`${name}: refused as completed, without an outcome`)
      else if (refusal === "SESSION_CLOSED") this.#mustBeClosed(org_id, session_id, name)
      else if (refusal !== "STEP_ALREADY_COMPLETED") this.fail(`${name}: refused with ${refusal}`)
      return
    }
    if (!Exit.isSuccess(exit)) return
    const { approval_id, decision, decision_source } = exit.value
    this.world.simulation.log(() => `${name}: ${decision}`)
    if (step === undefined) return this.fail(`${name}: answered ${decision}, and is not stored`)
    if ((step.approval_id ?? step.proposal_approval_id) !== approval_id)
      return this.fail(`${name}: answered with another approval`)
    const rulings = this.#rulings(step, from, this.world.simulation.now)
    if (decision === "reject" && rulings.some(({ effect }) => effect === "reject")) return
    if (decision !== "reject" && rulings.every(({ effect }) => effect === "reject"))
      return this.fail(`${name}: answered ${decision}, and the rules reject it`)
    if (
      decision === "allow" &&
      (decision_source === "counter_proposal") !== (step.proposal_approval_id !== null)
    )
      return this.fail(`${name}: allowed by ${String(decision_source)}, which is not what is stored`)
    if (decision === "allow" && (step.grant_id ?? null) !== exit.value.grant_id)
      return this.fail(`${name}: allowed by another grant than is stored`)
    const approval = step.approval_id === null ? undefined : this.#approval(org_id, step.approval_id)
    if (approval === undefined) {
      if (decision !== step.decision)
        this.fail(`${name}: answered ${decision}, and the rules decided ${step.decision}`)
      return
    }
    const closedAt = this.#closedAt.get(approvalKey(approval))
    if (decision === "pending") {
      if (closedAt !== undefined && closedAt < from)
        this.fail(`${name}: answered pending, and its approval was closed before the request`)
      return
    }
    if (approval.outcome !== decision)
      this.fail(
        `${name}: answered ${decision}, and its approval is ${approval.status} (${String(approval.outcome)})`
      )
  }

  decided(
    { actor, groups, org_id, scopes }: Principal,
    approval_id: string,
    {
      approves,
      grants,
      proposes
    }: { readonly approves: boolean; readonly proposes: boolean; readonly grants: boolean },
    exit: Exit.Exit<{ readonly status: string }, { readonly _tag: string }>
  ): void {
    const name = this.nameOf("approval", approval_id)
    const row = this.#approval(org_id, approval_id)
    const verdict = approves ? "approved" : "rejected"
    const votes = row === undefined ? [] : votesOf(row)
    const hasApproved = approves && votes.some(({ voted_by }) => voted_by.id === actor.id)
    // All who propose other arguments for a step propose the same.
    const isSame =
      row?.status === verdict &&
      (!proposes || row.proposed_digest !== null) &&
      (!grants || this.#grantsOf(row).some((grant) => grant.approval_id === approval_id))
    const isOwn = isSame && (row.decided_by_id === actor.id || hasApproved)
    const refusal = refusalOf(exit)
    if (row === undefined) return this.fail(`${name} has disappeared`)
    if (Exit.isSuccess(exit)) {
      this.counts.decisions++
      this.world.simulation.log(() => `${name}: ${verdict} by ${actor.name}, and ${exit.value.status}`)
      // A vote before the last stays, whatever becomes of the approval.
      if (exit.value.status === "pending" && hasApproved) return
      if (!isOwn || exit.value.status !== verdict)
        this.fail(`${name}: ${actor.name} was told that it is ${verdict}, and it is ${row.status}`)
      return
    }
    if (refusal === undefined) return
    this.counts.refused++
    this.world.simulation.log(() => `${name}: ${actor.name} is refused: ${refusal}`)
    switch (refusal) {
      case "APPROVAL_ALREADY_DECIDED":
        if (row.status === "pending" || row.status === "expired" || isOwn)
          this.fail(`${name}: ${actor.name} was told that it is decided, and it is ${row.status}`)
        return
      case "APPROVAL_EXPIRED":
        if (row.status !== "expired")
          this.fail(`${name}: ${actor.name} was told that it has expired: ${row.status}`)
        return
      case "ADMIN_REQUIRED":
        if (row.stage !== "admin" || scopes.has("approvals.admin"))
          this.fail(`${name}: ${actor.name} was told that admins decide, in stage ${row.stage}`)
        return
      case "GRANT_NOT_ALLOWED":
        if (!grants || row.approvals_required < 2)
          this.fail(`${name}: ${actor.name} was told that it takes several people`)
        return
      case "GROUP_REQUIRED":
        if (row.quorum === null || groups.length === 2)
          this.fail(`${name}: ${actor.name} was told that its groups do not decide`)
        return
      case "SAME_PERSON":
        // The agent, which made the key of a reviewer, decides nothing.
        this.fail(`${name}: ${actor.name} was told that it has approved by another key`)
        return
      case "SELF_APPROVAL":
        if (row.self_approval || !this.#isOwnRequest(row, actor.id))
          this.fail(`${name}: ${actor.name} was told that it decides its own request`)
        return
      default:
        this.fail(`${name}: ${actor.name} is refused with ${refusal}`)
    }
  }

  /** A grant was revoked, or had ended before. */
  revoked(org_id: string, grant_id: string, exit: Exit.Exit<{ readonly status: string }, unknown>): void {
    if (!Exit.isSuccess(exit)) return
    const row = this.model.grants.committedRow(grantKey({ org_id, grant_id }))
    const { status } = exit.value
    if (row === undefined || status === "active" || (row.end_reason ?? "expired") !== status)
      this.fail(`${this.nameOf("grant", grant_id)} was told to be ${status}, and is not`)
  }

  completed(
    key: { readonly org_id: string; readonly session_id: SessionId; readonly step_id: StepId },
    exit: Exit.Exit<unknown, { readonly _tag: string }>
  ): void {
    const name = `${key.step_id} of ${this.nameOf("session", key.session_id)}`
    const step = this.model.steps.committedRow(stepKey(key))
    const refusal = refusalOf(exit)
    if (Exit.isSuccess(exit)) {
      if (step === undefined || step.outcome_at === null)
        this.fail(`${name}: its outcome was acknowledged, and is not stored`)
      if (this.#outcomes.has(stepKey(key))) this.fail(`${name}: two outcomes were acknowledged`)
      this.#outcomes.add(stepKey(key))
      return
    }
    if (refusal === "STEP_ALREADY_COMPLETED" && step?.outcome_at === null)
      this.fail(`${name}: refused as completed, without an outcome`)
    if (refusal === "SESSION_CLOSED") this.#mustBeClosed(key.org_id, key.session_id, name)
  }

  closed(org_id: string, session_id: SessionId, exit: Exit.Exit<unknown, { readonly _tag: string }>): void {
    if (Exit.isSuccess(exit)) this.#mustBeClosed(org_id, session_id, "a request")
    const refusal = refusalOf(exit)
    if (refusal !== undefined)
      this.fail(`${this.nameOf("session", session_id)}: closing it is refused with ${refusal}`)
  }

  /** The rows that a replica's delivery engine is told of must be committed. */
  enqueued(rows: ReadonlyArray<QueueRow>): void {
    for (const { delivery_id, destination_id, event_id, seq } of rows) {
      const row = this.model.deliveries.committedRow(delivery_id)
      if (row?.seq !== seq || row.destination_id !== destination_id || row.event_id !== event_id)
        this.fail(`The delivery engine is told of a delivery that was not committed`)
    }
  }

  /** A follower gets an event. */
  received(follower: Follower, number: number, type: string, data: string): void {
    this.counts.received++
    const { org_id } = follower.principal
    const name = this.nameOf("session", follower.session_id)
    if (number !== follower.received + 1)
      return this.fail(`${name}: a follower got event ${number} after event ${follower.received}`)
    const event = this.model.events.committedRow(
      `${sessionKey({ org_id, session_id: follower.session_id })} ${number}`
    )
    if (event === undefined || event.type !== type || event.data !== data)
      this.fail(`${name}: a follower got an event ${number} that was not committed`)
  }

  /** A follower's stream has ended; true: there are no more events. */
  streamEnded(follower: Follower, exit: Exit.Exit<boolean, { readonly _tag: string }>): void {
    const name = this.nameOf("session", follower.session_id)
    const refusal = refusalOf(exit)
    if (refusal !== undefined)
      return this.fail(`${name}: a stream after ${follower.received} is refused with ${refusal}`)
    if (!Exit.isSuccess(exit) || !exit.value) return
    const newest = this.#newest(follower)
    if (follower.received !== newest)
      this.fail(
        `${name}: a follower was told that there are no events after ${follower.received}, and there are ${newest}`
      )
  }

  /** What must hold at any time. */
  regularly(): void {
    const { faults, replicas, simulation, store } = this.world
    const isCalm = !faults.isDisturbed(AFTERMATH_MILLIS)
    const hasRightTime = !faults.isExplained(undefined, CLOCK_FAULTS, CLOCK_AFTERMATH_MILLIS)
    for (const replica of replicas) {
      if (
        !replica.host.isAlive ||
        replica.host.isFrozen ||
        replica.clockMillis === undefined ||
        simulation.now - replica.readySince < START_MILLIS ||
        !hasRightTime
      )
        continue
      const difference = replica.clockMillis() - store.clockMillis()
      if (Math.abs(difference) > CLOCK_MILLIS)
        this.fail(
          `${replica.host.name}: the time of the service differs from the store's by ${Math.round(difference)} ms`
        )
    }
    if (isCalm && hasRightTime) {
      for (const [, row] of this.model.approvals.committed()) {
        const lateness = row.next_due_at === null ? 0 : store.clockMillis() - row.next_due_at
        if (lateness > LATE_MILLIS)
          this.fail(
            `${this.nameOf("approval", row.approval_id)}: a transition is ${Math.round(lateness)} ms late`
          )
      }
    }
    for (const follower of this.world.followers) {
      const isBehind =
        !follower.hasEnded && follower.replica !== undefined && follower.received < this.#newest(follower)
      if (!isBehind || !isCalm || follower.action.readMillis > 100) follower.behindSince = undefined
      else follower.behindSince ??= simulation.now
      const since = Math.max(follower.behindSince ?? Infinity, follower.connectedSince)
      if (simulation.now - since > BEHIND_MILLIS)
        this.fail(
          `${this.nameOf("session", follower.session_id)}: a follower has waited ${BEHIND_MILLIS / 1_000} s for events after ${follower.received}`
        )
    }
  }

  /** What has not come to its end. */
  unfinished(closed: ReadonlySet<number>): ReadonlyArray<string> {
    const { followers, sessionIds } = this.world
    return [
      ...[...sessionIds.keys()]
        .filter((one) => !closed.has(one))
        .map((one) => `session ${one} is not closed`),
      ...followers
        .filter(({ hasEnded }) => !hasEnded)
        .map(
          ({ received, session }) => `a follower of session ${session} waits for events after ${received}`
        ),
      ...this.world.replicas.filter(({ isReady }) => !isReady).map(({ host }) => `${host.name} is not ready`)
    ]
  }

  #approval(org_id: string, approval_id: string): ApprovalEntry | undefined {
    return this.model.approvals.committedRow(approvalKey({ org_id, approval_id }))
  }

  #newest(follower: Follower): number {
    const { org_id } = follower.principal
    return this.#lastEvents.get(sessionKey({ org_id, session_id: follower.session_id })) ?? 0
  }

  #isOwnRequest(
    { org_id, requested_by_id }: Pick<ApprovalEntry, "org_id" | "requested_by_id">,
    decider: string
  ): boolean {
    const organization = Array.from({ length: this.world.plan.organizations }, (_, number) => number).find(
      (number) => this.world.orgId(number) === org_id
    )
    if (organization === undefined) return false
    const makers = this.world.person(organization, 1)
    return (
      requested_by_id === decider ||
      (decider === makers.actor.id && makers.makers.some((maker) => maker === requested_by_id))
    )
  }

  #mustBeClosed(org_id: string, session_id: SessionId, name: string): void {
    const session = this.model.sessions.committedRow(sessionKey({ org_id, session_id }))
    if (session?.closed_at === null) this.fail(`${name} was told that the session is closed, and it is open`)
  }

  /** What the rules said about a step at any time of an interval. */
  #rulings(step: StepEntry, from: number, to: number): ReadonlyArray<Ruling> {
    // The plan's rules have no conditions.
    const input = { tool: step.tool, action_class: step.action_class, task_id: null, arguments: undefined }
    return this.#rules.during(step.org_id, from, to).map((rules) => evaluateRules(rules, input))
  }

  #committed(commit: Commit): void {
    for (const { after } of commit.rules) {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `Rules` has written this text
      this.#rules.add(after.org_id, commit.at, JSON.parse(after.rules) as ReadonlyArray<ApprovalRule>)
    }
    for (const { after } of commit.endpoints) {
      const subscriptions = new Map(this.#subscriptions.latest(after.org_id))
      if (after.active) subscriptions.set(after.endpoint_id, after.events)
      else subscriptions.delete(after.endpoint_id)
      this.#subscriptions.add(after.org_id, commit.at, subscriptions)
    }
    for (const change of commit.steps) this.#checkStep(change, commit)
    for (const change of commit.approvals) this.#checkApproval(change, commit)
    for (const change of commit.grants) this.#checkGrant(change, commit)
    this.#checkEvents(commit)
    this.#checkNotifications(commit)
  }

  #checkStep({ after, before }: Change<StepEntry>, commit: Commit): void {
    const name = `${after.step_id} of ${this.nameOf("session", after.session_id)}`
    if (before === undefined) {
      const rulings = this.#rulings(after, commit.from, commit.at)
      const expected = rulings.map(({ effect }) => (effect === "require_approval" ? "pending" : effect))
      const byRules =
        after.proposal_approval_id === null && after.grant_id === null ? after.decision : "pending"
      if (byRules === "pending") this.#checkGrantOf(after, rulings, commit)
      if (byRules === "pending") this.#checkProposalOf(after, rulings, commit)
      if (!expected.some((one) => one === byRules))
        this.fail(`${name} is stored with ${after.decision}, and the rules say ${expected.join(" or ")}`)
      const hasApproval = commit.approvals.some((one) => one.after.approval_id === after.approval_id)
      if ((after.decision === "pending") !== hasApproval) this.fail(`${name} is stored without its approval`)
      return
    }
    if (before.outcome_at !== null) this.fail(`${name} changes after its outcome`)
    if (after.outcome_at !== null && (after.last_decision ?? after.decision) === "reject")
      this.fail(`${name} was rejected, and its outcome is stored`)
  }

  #grantsOf(session: { readonly org_id: string; readonly session_id: string }): ReadonlyArray<GrantEntry> {
    const key = sessionKey(session)
    return [...this.model.grants.committed()].map(([, row]) => row).filter((row) => sessionKey(row) === key)
  }

  /** Each use of a grant is that of one new step, within its time and its count, and none follows its end. */
  #checkGrant({ after, before }: Change<GrantEntry>, commit: Commit): void {
    const name = this.nameOf("grant", after.grant_id)
    const audits = commit.audits.filter(({ target_id }) => target_id === after.grant_id)
    if (before === undefined) {
      this.#grantedAt.set(grantKey(after), commit.at)
      const approval = commit.approvals.find((one) => one.after.approval_id === after.approval_id)?.after
      if (approval?.status !== "approved" || approval.decided_by_id !== after.created_by_id)
        this.fail(`${name} is made without its approval`)
      if (approval !== undefined && approval.approvals_required > 1)
        this.fail(`${name} is made by one of several people`)
      if (audits.length !== 1) this.fail(`${name} is made with ${audits.length} entries of the audit log`)
      return
    }
    if (before.ended_at !== null) this.fail(`${name} changes after it has ended`)
    const steps = commit.steps.filter(
      (one) => one.before === undefined && one.after.grant_id === after.grant_id
    )
    if (after.uses - before.uses !== steps.length)
      this.fail(`${name} counts ${after.uses - before.uses} uses for ${steps.length} steps`)
    if (after.max_uses !== null && after.uses > after.max_uses) this.fail(`${name} is used too often`)
    if (after.end_reason === "revoked" && audits.length !== 1)
      this.fail(`${name} is revoked with ${audits.length} entries of the audit log`)
  }

  /** A step that would wait is allowed by a grant exactly if there is one of a person who could have allowed it alone. */
  #checkGrantOf(step: StepEntry, rulings: ReadonlyArray<Ruling>, commit: Commit): void {
    const name = `${step.step_id} of ${this.nameOf("session", step.session_id)}`
    const asking = rulings.filter(({ effect }) => effect === "require_approval")
    const requesters = [
      step.requested_by_id,
      this.model.sessions.committedRow(sessionKey(step))?.created_by_id ?? ""
    ]
    const covers = (grant: GrantEntry) =>
      grant.tool === step.tool &&
      grant.expires_at > step.requested_at &&
      (grant.scope === "tool" || this.#argumentsOf(step, grant.step_id) === step.arguments)
    const mayAllow = (grant: GrantEntry, { terms }: Ruling) => {
      const [part, ...others] = terms.quorum
      const groups = GROUPS[Number.parseInt(grant.created_by_id.slice(-6), 16) % 100] ?? []
      return (
        part?.count === 1 &&
        others.length === 0 &&
        (part.group === null || groups.includes(part.group)) &&
        (terms.self_approval ||
          !requesters.some((requested_by_id) =>
            this.#isOwnRequest({ org_id: step.org_id, requested_by_id }, grant.created_by_id)
          ))
      )
    }
    if (step.grant_id === null) {
      if (step.proposal_approval_id !== null) return
      // A grant that a transaction has made which ended before this one began.
      const ignored = this.#grantsOf(step).find(
        (grant) =>
          grant.ended_at === null &&
          (this.#grantedAt.get(grantKey(grant)) ?? Infinity) < commit.from &&
          covers(grant) &&
          asking.length > 0 &&
          asking.every((ruling) => mayAllow(grant, ruling))
      )
      if (ignored !== undefined && step.decision === "pending")
        this.fail(`${name} waits, and ${this.nameOf("grant", ignored.grant_id)} allows it`)
      return
    }
    this.counts.grants++
    const used = commit.grants.find(({ after }) => after.grant_id === step.grant_id)
    if (
      used?.before === undefined ||
      used.before.ended_at !== null ||
      sessionKey(used.after) !== sessionKey(step)
    )
      return this.fail(`${name} is allowed by a grant that it does not use`)
    if (!covers(used.after)) this.fail(`${name} is allowed by a grant of something else, or that has expired`)
    if (!asking.some((ruling) => mayAllow(used.after, ruling)))
      this.fail(`${name} is allowed by a grant of a person who could not allow it alone`)
  }

  #argumentsOf({ org_id, session_id }: StepEntry, step_id: string): string | null | undefined {
    return this.model.steps.committedRow(stepKey({ org_id, session_id, step_id }))?.arguments
  }

  /**
   * A step that would wait is allowed by a proposal exactly if there is one: of its arguments, unused, and of a person who could have
   * allowed it alone.
   */
  #checkProposalOf(step: StepEntry, rulings: ReadonlyArray<Ruling>, commit: Commit): void {
    const name = `${step.step_id} of ${this.nameOf("session", step.session_id)}`
    const asking = rulings.filter(({ effect }) => effect === "require_approval")
    const digest = proposalDigest({ ...step, arguments: JSON.parse(step.arguments ?? "null") })
    const mayUse = (row: ApprovalEntry, { terms }: Ruling) => {
      const [part, ...others] = terms.quorum
      const groups = row.proposed_by === null ? [] : groupsOf(row.proposed_by)
      const requesters = [
        step.requested_by_id,
        this.model.sessions.committedRow(sessionKey(step))?.created_by_id ?? ""
      ]
      return (
        part?.count === 1 &&
        others.length === 0 &&
        (part.group === null || groups.includes(part.group)) &&
        (terms.self_approval ||
          !requesters.some((requested_by_id) =>
            this.#isOwnRequest({ org_id: step.org_id, requested_by_id }, row.decided_by_id ?? "")
          ))
      )
    }
    if (step.proposal_approval_id === null) {
      // A proposal of a transaction that ended before this one began.
      const ignored = [...this.model.approvals.committed()].find(
        ([key, row]) =>
          sessionKey(row) === sessionKey(step) &&
          row.proposed_digest === digest &&
          row.proposal_step_id === null &&
          (row.proposal_expires_at ?? 0) > step.requested_at &&
          (this.#closedAt.get(key) ?? Infinity) < commit.from &&
          asking.length === rulings.length &&
          asking.every((ruling) => mayUse(row, ruling))
      )
      if (ignored !== undefined) this.fail(`${name} waits, and a proposal allows it`)
      return
    }
    const used = commit.approvals.find(({ after }) => after.approval_id === step.proposal_approval_id)
    if (used?.before === undefined || used.before.proposal_step_id !== null)
      return this.fail(`${name} is allowed by a proposal that another step has used`)
    if (used.after.proposal_step_id !== step.step_id || used.after.proposed_digest !== digest)
      this.fail(`${name} is allowed by a proposal of something else`)
    if ((used.after.proposal_expires_at ?? 0) <= step.requested_at)
      this.fail(`${name} is allowed by a proposal that has expired`)
    if (!asking.some((ruling) => mayUse(used.after, ruling)))
      this.fail(`${name} is allowed by a proposal of a person who could not allow it alone`)
    this.counts.proposals++
  }

  #checkApproval({ after, before }: Change<ApprovalEntry>, commit: Commit): void {
    const name = this.nameOf("approval", after.approval_id)
    const fail = (reason: string) => this.fail(`${name} ${reason}`)
    if (before === undefined) {
      if (after.status !== "pending") fail(`begins as ${after.status}`)
      return
    }
    if (before.status === "rejected" && before.proposed_digest !== null && before.proposal_step_id === null) {
      const { proposal_step_id } = after
      const isUsed = commit.steps.some(
        (step) =>
          step.before === undefined &&
          step.after.step_id === proposal_step_id &&
          step.after.proposal_approval_id === after.approval_id
      )
      const expected: ApprovalEntry = { ...before, proposal_step_id }
      if (!isUsed || JSON.stringify(expected) !== JSON.stringify(after))
        fail("changes after its rejection, and no step uses its proposal")
      return
    }
    this.counts.transitions++
    const added = after.approvals_given - before.approvals_given
    if (added < 0 || added > 1 || votesOf(after).length !== after.approvals_given)
      fail(`has ${after.approvals_given} votes after ${before.approvals_given}`)
    if (!haveParts(votesOf(after), after)) fail("has a vote that no part of its quorum asks for")
    if (after.status === "pending" && added === 1) {
      const audits = commit.audits.filter(
        ({ action, target_id }) => target_id === after.approval_id && action === "approval.vote_recorded"
      )
      if (audits.length !== 1) fail(`has a vote with ${audits.length} entries of the audit log`)
    }
    this.world.simulation.log(() => `${name}: ${approvalEventsOf(before, after).join(", ")}`)
    if (before.status !== "pending") return fail(`changes from ${before.status} to ${after.status}`)
    if (after.stage === "reviewer" && before.stage === "admin") return fail("is given back to the reviewers")
    if (after.status === "pending") {
      if (before.stage === after.stage && before.expiring_notified && added === 0)
        fail("is written without a transition")
    } else this.#closedAt.set(approvalKey(after), commit.at)
    const escalates = after.stage === "admin" && before.stage === "reviewer"
    if (escalates && (after.escalated_at ?? 0) < before.expires_at)
      fail("is escalated before its window ends")
    if (escalates && (after.escalated_at ?? 0) >= (after.escalation_deadline_at ?? 0))
      fail("is escalated after the admins' window")
    if (closesApproval(before, after)) {
      const decidedAt = after.decided_at ?? 0
      if (after.status === "approved") this.#checkQuorum(after, fail)
      if (after.decision_source === "human") {
        if (decidedAt >= after.expires_at) fail("is decided after its deadline")
        if (after.stage === "admin" && !this.#isAdmin(after)) fail("is decided by a reviewer in stage admin")
        if (!after.self_approval && this.#isOwnRequest(after, after.decided_by_id ?? ""))
          fail("is decided by who requested it")
        const audits = commit.audits.filter(
          ({ action, target_id }) => target_id === after.approval_id && action === `approval.${after.status}`
        )
        if (audits.length !== 1) fail(`is ${after.status} with ${audits.length} entries of the audit log`)
      }
      if (after.decision_source === "timeout") {
        const end =
          after.stage === "reviewer"
            ? (after.escalation_deadline_at ?? after.review_deadline_at)
            : after.expires_at
        if (decidedAt < end) fail("expires before its last window ends")
        if (after.outcome !== after.timeout_action) fail("expires without its timeout action")
      }
      if (after.decision_source === "session_closed") {
        if (after.outcome !== "reject") fail("is closed with its session, and not rejected")
        const session = this.model.sessions.committedRow(sessionKey(after))
        if (session?.closed_at === null) fail("is closed with its session, which is open")
      }
    }
    // By the store's time, unless that or a replica's has just been disturbed.
    if (this.world.faults.isExplained(undefined, CLOCK_FAULTS, CLOCK_AFTERMATH_MILLIS)) return
    const at = after.decided_at ?? after.escalated_at ?? 0
    if (at > this.world.store.clockMillis() + CLOCK_MILLIS) fail("makes a transition of the future")
    const isByTime = (after.decision_source === null && added === 0) || after.decision_source === "timeout"
    if (
      isByTime &&
      before.next_due_at !== null &&
      before.next_due_at > this.world.store.clockMillis() + CLOCK_MILLIS
    )
      fail(`makes a transition ${Math.round(before.next_due_at - this.world.store.clockMillis())} ms early`)
  }

  /** An approval of two people is by two, none of whom requested it. */
  #checkQuorum(row: ApprovalEntry, fail: (reason: string) => void): void {
    const votes = votesOf(row)
    // As many as are asked for, and each fills a place of its quorum: `haveParts`.
    if (votes.length !== row.approvals_required) fail(`is approved with ${votes.length} votes`)
    if (new Set(votes.map(({ voted_by }) => voted_by.id)).size !== votes.length)
      fail("is approved by one person twice")
    if (!row.self_approval && votes.some(({ voted_by }) => this.#isOwnRequest(row, voted_by.id)))
      fail("has a vote of who requested it")
  }

  #isAdmin({ decided_by_id, org_id }: ApprovalEntry): boolean {
    for (let organization = 0; organization < this.world.plan.organizations; organization++) {
      if (this.world.orgId(organization) !== org_id) continue
      return [0, 1].every((number) => this.world.person(organization, number).actor.id !== decided_by_id)
    }
    return false
  }

  /** Numbers follow each other without gaps in the order of commits, and each change has its events, once. */
  #checkEvents(commit: Commit): void {
    const bySession = Map.groupBy(commit.events, sessionKey)
    const changed = new Set([
      ...bySession.keys(),
      ...commit.steps.map(({ after }) => sessionKey(after)),
      ...commit.approvals.map(({ after }) => sessionKey(after)),
      ...commit.sessions.map(({ after }) => sessionKey(after))
    ])
    for (const key of changed) {
      const session = commit.sessions.find(({ after }) => sessionKey(after) === key)
      const events = (bySession.get(key) ?? []).toSorted((a, b) => a.number - b.number)
      const name = this.nameOf("session", key.slice(key.indexOf(" ") + 1))
      const last = this.#lastEvents.get(key) ?? 0
      for (const [index, { number }] of events.entries()) {
        if (number !== last + index + 1)
          this.fail(`${name}: event ${number} is committed after event ${last + index}`)
      }
      this.counts.events += events.length
      this.#lastEvents.set(key, last + events.length)
      if (session !== undefined && session.after.last_event !== last + events.length)
        this.fail(
          `${name}: its newest event is ${last + events.length}, and it counts ${session.after.last_event}`
        )
      if (events.length > 0 && session?.before !== undefined && session.before.closed_at !== null)
        this.fail(`${name}: an event after it was closed`)
      const expected = sessionEventsOf(commit, key).toSorted()
      const found = events.map((event) => signatureOf(event)).toSorted()
      if (expected.join() !== found.join())
        this.fail(`${name}: a change has the events ${found.join(", ")} instead of ${expected.join(", ")}`)
      const isClosing = session?.after.closed_at !== null && session?.before?.closed_at === null
      if (isClosing) this.#checkClosing(key, name, events)
    }
  }

  #checkClosing(key: string, name: string, events: ReadonlyArray<EventEntry>): void {
    if (events.at(-1)?.type !== "session:closed") this.fail(`${name}: session:closed is not its last event`)
    for (const [, approval] of this.model.approvals.committed()) {
      if (sessionKey(approval) === key && approval.status === "pending")
        this.fail(`${name} is closed with a pending approval`)
    }
    const closedAt = this.model.sessions.committedRow(key)?.closed_at ?? 0
    for (const [, grant] of this.model.grants.committed()) {
      if (sessionKey(grant) === key && grant.ended_at === null && grant.expires_at > closedAt)
        this.fail(`${name} is closed with an active grant`)
    }
  }

  /** Each transition of an approval is queued once for each endpoint that subscribes to it. */
  #checkNotifications(commit: Commit): void {
    const left = new Set(commit.notifications)
    for (const { after, before } of commit.approvals) {
      for (const type of approvalEventsOf(before, after)) {
        const name = `${type} of ${this.nameOf("approval", after.approval_id)}`
        const own = commit.notifications.filter(
          (one) => one.approval_id === after.approval_id && one.type === type && one.org_id === after.org_id
        )
        for (const one of own) left.delete(one)
        const [event, second] = own
        if (second !== undefined) this.fail(`${name} is stored ${own.length} times`)
        const queued = commit.deliveries
          .filter((one) => one.event_id === event?.event_id)
          .map(({ destination_id }) => destination_id)
          .toSorted()
          .join()
        this.counts.queued += queued === "" ? 0 : queued.split(",").length
        const wanted = this.#subscribers(after.org_id, type, commit)
        if (!wanted.includes(queued))
          this.fail(
            `${name} is queued for [${queued}] instead of ${wanted.map((one) => `[${one}]`).join(" or ")}`
          )
      }
    }
    for (const { type } of left) this.fail(`${type} is stored without a transition`)
    const events = new Set(commit.notifications.map(({ event_id }) => event_id))
    if (commit.deliveries.some(({ event_id }) => !events.has(event_id)))
      this.fail("A delivery is queued without its event")
  }

  /** The lists of endpoints that subscribed to a type at any time of a transaction. */
  #subscribers(org_id: string, type: string, { at, from }: Commit): ReadonlyArray<string> {
    const lists = this.#subscriptions.during(org_id, from, at).map((subscriptions) =>
      [...subscriptions]
        .filter(([, types]) => types.includes(type))
        .map(([endpoint_id]) => endpoint_id)
        .toSorted()
        .join()
    )
    return lists.length === 0 ? [""] : [...new Set(lists)]
  }
}

/** What an event says, as `sessionEventsOf` writes it. */
const signatureOf = ({ data, type }: EventEntry): string => {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `SessionEvents` has written this text
  const event = JSON.parse(data) as {
    readonly step_id: string | null
    readonly decision?: string
    readonly status?: string
    readonly approval?: { readonly status: string }
  }
  const detail = event.decision ?? event.status ?? event.approval?.status ?? ""
  return [type, event.step_id ?? "", detail].join(" ").trim()
}

/** The typed error with which a request was refused. */
const refusalOf = (exit: Exit.Exit<unknown, { readonly _tag: string }>): string | undefined => {
  if (Exit.isSuccess(exit)) return undefined
  return exit.cause.reasons.find(Cause.isFailReason)?.error._tag
}

interface StoredVote {
  readonly voted_by: { readonly id: string }
  readonly groups: ReadonlyArray<string>
  readonly stage: string
}

const votesOf = ({ votes }: ApprovalEntry): ReadonlyArray<StoredVote> =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `approvalRows` has written this text
  votes === null ? [] : (JSON.parse(votes) as ReadonlyArray<StoredVote>)

const groupsOf = (proposed_by: string): ReadonlyArray<string> =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `proposalRows` has written this text
  (JSON.parse(proposed_by) as { readonly groups: ReadonlyArray<string> }).groups

const quorumOf = ({
  quorum
}: ApprovalEntry): ReadonlyArray<{ readonly count: number; readonly group: string | null }> =>
  quorum === null
    ? []
    : // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `approvalRows` has written this text
      (JSON.parse(quorum) as ReadonlyArray<{ readonly count: number; readonly group: string | null }>)

/** Whether each vote can fill a place of the quorum of its own: of the voter's groups, or any after the escalation. Tries all orders. */
const haveParts = (votes: ReadonlyArray<StoredVote>, row: ApprovalEntry): boolean => {
  const quorum = quorumOf(row)
  const places =
    quorum.length === 0
      ? Array.from({ length: row.approvals_required }, () => null)
      : quorum.flatMap(({ count, group }) => Array.from({ length: count }, () => group))
  const fill = (left: ReadonlyArray<string | null>, [vote, ...others]: ReadonlyArray<StoredVote>): boolean =>
    vote === undefined ||
    left.some(
      (group, place) =>
        (group === null || vote.stage === "admin" || vote.groups.includes(group)) &&
        fill(left.toSpliced(place, 1), others)
    )
  return fill(places, votes)
}
