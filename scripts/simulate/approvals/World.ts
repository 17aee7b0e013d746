import { Effect, Exit } from "effect"
import { Authorized } from "../../../src/api/Authorization.ts"
import { approvalEventTypes } from "../../../src/domain/approvals/ApprovalEvent.ts"
import { ApprovalId, GrantId, KeyId, OrgId, type SessionId, StepId } from "../../../src/domain/Ids.ts"
import type { Principal } from "../../../src/domain/identity/Principal.ts"
import { scopes } from "../../../src/domain/identity/Scope.ts"
import { Approvals } from "../../../src/server/approvals/Approvals.ts"
import { Grants } from "../../../src/server/approvals/Grants.ts"
import { Rules } from "../../../src/server/approvals/Rules.ts"
import { Sessions } from "../../../src/server/approvals/Sessions.ts"
import { Steps } from "../../../src/server/approvals/Steps.ts"
import { Faults } from "../core/Faults.ts"
import { Notifications } from "../core/Notifications.ts"
import type { RandomStream } from "../core/RandomStream.ts"
import { type Outcome, runToEnd } from "../core/runToEnd.ts"
import { Simulation } from "../core/Simulation.ts"
import { Store } from "../core/Store.ts"
import { StoreNetwork } from "../core/StoreClient.ts"
import { ApprovalModel, stepKey } from "./ApprovalModel.ts"
import { Checks } from "./Checks.ts"
import { Follower } from "./Follower.ts"
import {
  ACTION_MILLIS,
  type Action,
  DECIDING_KEYS,
  GROUPS,
  isFault,
  type Plan,
  type Request
} from "./Plan.ts"
import { Replica, type RequestServices } from "./Replica.ts"

/** How long everything may take once nothing disturbs any more, in milliseconds. */
const RECOVERY_MILLIS = 120_000

/** How often the checks look at all replicas and clients, in milliseconds. */
const CHECK_EVERY_MILLIS = 250

/** A request that has no answer after this time is sent again, to any replica, in milliseconds. Only requests that must succeed are. */
const RETRY_MILLIS = 5_000

const hex = (number: number): string => number.toString(16).padStart(32, "0")

const key = (number: number, organization: number) => ({
  id: KeyId.make(`key_${hex(organization * 100 + number)}`),
  name: `key ${number}`
})

/** The number of the agent's key in each organization. */
const AGENT = 99

/** One run of a plan: replicas, store, network and clients, in one process. */
export class World {
  readonly plan: Plan
  readonly simulation: Simulation
  readonly store: Store
  readonly network: StoreNetwork
  readonly notifications: Notifications
  readonly model: ApprovalModel
  readonly faults: Faults
  readonly checks: Checks
  readonly replicas: Array<Replica> = []
  readonly followers: Array<Follower> = []
  /** The ids of the sessions that were opened. */
  readonly sessionIds = new Map<number, SessionId>()
  readonly #closed = new Set<number>()
  readonly #random: RandomStream
  #starts = 0
  #isFinished = false

  constructor(plan: Plan, trace?: (line: string) => void) {
    this.plan = plan
    this.simulation = new Simulation(`approvals run ${plan.seed}`, trace)
    this.#random = this.simulation.random.fork("world")
    this.store = new Store(this.simulation)
    this.network = new StoreNetwork(this.store)
    this.notifications = new Notifications(this.network)
    this.model = new ApprovalModel(this.store)
    this.faults = new Faults({
      network: this.network,
      notifications: this.notifications,
      replicas: this.replicas,
      start: (number) => this.startReplica(number)
    })
    this.checks = new Checks(this)
    this.#prepareStore()
  }

  /** Runs the plan to its end, or to the first broken invariant. */
  run(): Outcome {
    const { checks, plan, simulation } = this
    for (let number = 0; number < plan.replicas; number++) this.startReplica(number)
    for (const action of plan.actions) simulation.schedule(action.at, () => this.#act(action))
    this.#checkRegularly()
    simulation.schedule(ACTION_MILLIS, () => this.#end())
    return runToEnd({
      simulation,
      store: this.store,
      checks,
      isFinished: () => this.#isFinished,
      faults: plan.actions.filter(isFault).length
    })
  }

  startReplica(number: number): void {
    if (this.replicas[number]?.host.isAlive === true) return
    const starts = this.#starts++
    const replica = new Replica(this, number, starts < this.plan.replicas ? 0 : starts)
    this.simulation.log(() => `${replica.host.name}: starts`)
    this.replicas[number] = replica
  }

  someReplica(random: RandomStream): Replica | undefined {
    const ready = this.replicas.filter((replica) => replica.isReady && replica.host.isAlive)
    return ready[random.int(0, ready.length - 1)]
  }

  organizationOf(session: number): number {
    return this.plan.sessions[session] ?? 0
  }

  orgId(organization: number): OrgId {
    return OrgId.make(`org_${hex(organization)}`)
  }

  /** The agent, which also submits steps. */
  agent(organization: number): Principal {
    return this.#principal(organization, AGENT, [])
  }

  /** A person who decides: the first two are reviewers, the others admins. The agent has made the key of the second. */
  person(organization: number, number: number): Principal {
    return this.#principal(organization, number, number === 1 ? [key(AGENT, organization).id] : [])
  }

  /** Whose key submits a step: mostly the agent's. */
  requesterOf(session: number, step: number): Principal {
    const organization = this.organizationOf(session)
    return step % 3 === 0 ? this.person(organization, DECIDING_KEYS - 1) : this.agent(organization)
  }

  stepId(step: number): StepId {
    return StepId.make(`step ${step}`)
  }

  #principal(organization: number, number: number, makers: ReadonlyArray<KeyId>): Principal {
    const isReviewer = number < 2
    return {
      org_id: this.orgId(organization),
      actor: key(number, organization),
      scopes: new Set(scopes.filter((scope) => !isReviewer || scope !== "approvals.admin")),
      groups: GROUPS[number] ?? [],
      makers
    }
  }

  /** Organizations begin with rules and endpoints. */
  #prepareStore(): void {
    const { model, plan, store } = this
    const transaction = store.begin()
    for (let organization = 0; organization < plan.organizations; organization++) {
      model.writeRules(transaction, {
        org_id: this.orgId(organization),
        revision: 1,
        rules: JSON.stringify(plan.rules[organization] ?? [])
      })
    }
    for (const number of plan.endpoints.keys()) this.#writeEndpoint(transaction, number, true)
    transaction.commit()
  }

  #writeEndpoint(transaction: ReturnType<Store["begin"]>, number: number, active: boolean): void {
    const endpoint = this.plan.endpoints[number]
    if (endpoint === undefined) return
    this.model.writeEndpoint(transaction, {
      org_id: this.orgId(endpoint.organization),
      endpoint_id: `nep_${hex(number)}`,
      events: endpoint.events ?? approvalEventTypes,
      active,
      version: String(this.store.nextval("transactions"))
    })
  }

  #checkRegularly(): void {
    this.checks.regularly()
    this.simulation.schedule(CHECK_EVERY_MILLIS, () => this.#checkRegularly())
  }

  #act(action: Action): void {
    this.simulation.log(() => describe(action))
    if (isFault(action)) return this.faults.inject(action)
    switch (action._tag) {
      case "ChangeEndpoint": {
        // Another process changes it: no replica hears of it.
        const transaction = this.store.begin()
        this.#writeEndpoint(transaction, action.endpoint, action.active)
        return transaction.commit()
      }
      case "Follow": {
        const session_id = this.sessionIds.get(action.session)
        if (session_id === undefined) return
        const name = `follower ${this.followers.length}`
        const principal = this.agent(this.organizationOf(action.session))
        this.followers.push(new Follower(this, name, session_id, principal, action))
        return
      }
      default: {
        const replica = this.replicas[action.replica]
        if (replica !== undefined && replica.isReady && !replica.host.isFrozen) this.#request(action, replica)
      }
    }
  }

  /** Sends a request, and lets its client leave when its patience ends. */
  #send<A, E>(
    replica: Replica,
    principal: Principal,
    patienceMillis: number | null,
    effect: Effect.Effect<A, E, RequestServices>,
    done: (exit: Exit.Exit<A, E>) => void
  ): void {
    let isOver = false
    this.checks.counts.requests++
    const leave = replica.request(principal, effect, (exit) => {
      isOver = true
      this.checks.answered(replica, exit)
      done(exit)
    })
    if (patienceMillis !== null) {
      this.simulation.schedule(patienceMillis, () => {
        if (!isOver) leave()
      })
    }
  }

  #request(action: Request, replica: Replica): void {
    const { checks, simulation } = this
    const from = simulation.now
    if (action._tag === "Open") return this.#open(action.session, replica)
    if (action._tag === "ReplaceRules") {
      const principal = this.person(action.organization, DECIDING_KEYS - 1)
      const rules = this.plan.rules[action.rules] ?? []
      const replace = withScope(
        "rules.write",
        principal
      )(Effect.flatMap(Rules, (one) => one.replace({ rules })))
      return this.#send(replica, principal, action.patienceMillis, replace, () => {})
    }
    const session_id = this.sessionIds.get(action.session)
    if (session_id === undefined) return
    const organization = this.organizationOf(action.session)
    switch (action._tag) {
      case "Step": {
        const principal = this.requesterOf(action.session, action.step)
        return this.#send(
          replica,
          principal,
          action.patienceMillis,
          this.#step(action.session, action.step, session_id, principal),
          (exit) => checks.stepAnswered(principal.org_id, session_id, this.stepId(action.step), from, exit)
        )
      }
      case "Decide": {
        const step_id = this.stepId(action.step)
        const org_id = this.orgId(organization)
        // A person has heard of the approval by its notification, or by the list.
        const approval_id = this.model.steps.committedRow(
          stepKey({ org_id, session_id, step_id })
        )?.approval_id
        if (approval_id === undefined || approval_id === null) return
        const principal = this.person(organization, action.key)
        const decision = action.approves ? "approve" : "reject"
        const proposes = action.proposes && !action.approves
        const grant = action.grant === null ? {} : { grant: action.grant }
        const proposal = proposes ? { proposed_arguments: argumentsOf(action.step + 1) } : {}
        const decide = withScope(
          "approvals.decide",
          principal
        )(
          Effect.flatMap(Approvals, (one) =>
            one.decide(ApprovalId.make(approval_id), { decision, ...proposal, ...grant })
          )
        )
        return this.#send(replica, principal, action.patienceMillis, decide, (exit) =>
          checks.decided(
            principal,
            approval_id,
            { approves: action.approves, proposes, grants: action.grant !== null },
            exit
          )
        )
      }
      case "Revoke": {
        const step_id = this.stepId(action.step)
        const made = [...this.model.grants.committed()].find(
          ([, row]) => row.session_id === session_id && row.step_id === step_id
        )
        if (made === undefined) return
        const principal = this.person(organization, action.key)
        const grant_id = GrantId.make(made[1].grant_id)
        const revoke = withScope(
          "approvals.decide",
          principal
        )(Effect.flatMap(Grants, (one) => one.revoke(grant_id)))
        return this.#send(replica, principal, action.patienceMillis, revoke, (exit) =>
          checks.revoked(principal.org_id, grant_id, exit)
        )
      }
      case "Complete": {
        const principal = this.requesterOf(action.session, action.step)
        const step_id = this.stepId(action.step)
        const complete = withScope(
          "sessions.write",
          principal
        )(Effect.flatMap(Steps, (one) => one.complete(session_id, step_id, { status: "succeeded" })))
        return this.#send(replica, principal, action.patienceMillis, complete, (exit) =>
          checks.completed({ org_id: principal.org_id, session_id, step_id }, exit)
        )
      }
      case "Close": {
        const principal = this.agent(organization)
        return this.#send(
          replica,
          principal,
          action.patienceMillis,
          this.#close(session_id, principal),
          (exit) => checks.closed(principal.org_id, session_id, exit)
        )
      }
    }
  }

  /** Opens a session, which others wait for: if no answer comes, another replica is asked. */
  #open(session: number, replica: Replica | undefined): void {
    if (this.sessionIds.has(session)) return
    const principal = this.agent(this.organizationOf(session))
    const create = withScope("sessions.write", principal)(Effect.flatMap(Sessions, (one) => one.create({})))
    if (replica !== undefined && !replica.host.isFrozen) {
      this.#send(replica, principal, null, create, (exit) => {
        if (!Exit.isSuccess(exit) || this.sessionIds.has(session)) return
        this.sessionIds.set(session, exit.value.session_id)
        this.checks.opened(principal.org_id, session, exit.value.session_id)
        if (this.simulation.now >= ACTION_MILLIS) this.#closeAtLast(session, exit.value.session_id)
      })
    }
    if (this.simulation.now < ACTION_MILLIS) {
      this.simulation.schedule(RETRY_MILLIS, () => this.#open(session, this.someReplica(this.#random)))
    }
  }

  #step(session: number, step: number, session_id: SessionId, principal: Principal) {
    const tool = this.plan.steps[session]?.[step] ?? "other"
    return withScope(
      "sessions.write",
      principal
    )(
      Effect.flatMap(Steps, (one) =>
        one.check(session_id, {
          step_id: this.stepId(step),
          tool,
          action_class: "any",
          arguments: argumentsOf(step)
        })
      )
    )
  }

  #close(session_id: SessionId, principal: Principal) {
    return withScope("sessions.write", principal)(Effect.flatMap(Sessions, (one) => one.close(session_id)))
  }

  /** No more requests: once the last fault has ended, every session is closed, and every follower has seen everything. */
  #end(): void {
    const { checks, faults, simulation } = this
    simulation.log(() => "no further requests and faults")
    const calmFrom = Math.max(faults.calmFrom, simulation.now)
    const look = () => {
      if (simulation.now < Math.max(calmFrom, faults.calmFrom)) {
        simulation.schedule(500, look)
        return
      }
      const left = checks.unfinished(this.#closed)
      if (left.length === 0) {
        this.#isFinished = true
        return
      }
      if (simulation.now > Math.max(calmFrom, faults.calmFrom) + RECOVERY_MILLIS) {
        checks.fail(`After ${RECOVERY_MILLIS / 1000} s without a fault: ${left.slice(0, 4).join("; ")}`)
      } else simulation.schedule(500, look)
    }
    look()
    for (const [session, session_id] of this.sessionIds) this.#closeAtLast(session, session_id)
  }

  /** Closes a session after the last fault, however often it takes. */
  #closeAtLast(session: number, session_id: SessionId): void {
    const { checks, faults, simulation } = this
    if (this.#closed.has(session)) return
    simulation.schedule(RETRY_MILLIS, () => this.#closeAtLast(session, session_id))
    if (simulation.now < faults.calmFrom + checks.settleMillis) return
    const replica = this.someReplica(this.#random)
    const principal = this.agent(this.organizationOf(session))
    if (replica === undefined) return
    this.#send(replica, principal, null, this.#close(session_id, principal), (exit) => {
      checks.closed(principal.org_id, session_id, exit)
      if (Exit.isSuccess(exit)) this.#closed.add(session)
    })
  }
}

/** The arguments of a step. Those of the same parity are equal, so that a proposal matches many steps. */
const argumentsOf = (step: number) => ({ parity: step % 2 })

/** A request of a key that has the scope. */
const withScope =
  <const S extends (typeof scopes)[number]>(scope: S, principal: Principal) =>
  <A, E, R>(effect: Effect.Effect<A, E, R | Authorized<S>>): Effect.Effect<A, E, Exclude<R, Authorized<S>>> =>
    Effect.provideService(effect, Authorized(scope), principal)

const describe = ({ _tag, at: _, ...rest }: Action): string => `${_tag} ${JSON.stringify(rest)}`
