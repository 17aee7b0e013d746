import type { ApprovalRule } from "../../../src/domain/approvals/ApprovalRule.ts"
import { DEFAULT_QUORUM, type Quorum } from "../../../src/domain/approvals/Quorum.ts"
import { RuleId } from "../../../src/domain/Ids.ts"
import { type Fault, makeFault } from "../core/Faults.ts"
import { RandomStream } from "../core/RandomStream.ts"

/** A standing grant that a person asks for. */
export interface GrantPlan {
  readonly scope: "arguments" | "tool"
  readonly lasts_seconds: number
  readonly max_uses: number | null
}

/** Something that a client does. Sessions, keys and followers are numbered from 0; steps from 0 in their session. */
export type Request = {
  readonly at: number
  readonly replica: number
  /** After how long the client leaves, which interrupts the request, in milliseconds; null: it waits. */
  readonly patienceMillis: number | null
} & (
  | { readonly _tag: "Open"; readonly session: number }
  /** Submits a step, or repeats it. */
  | { readonly _tag: "Step"; readonly session: number; readonly step: number }
  | {
      readonly _tag: "Decide"
      readonly session: number
      readonly step: number
      readonly approves: boolean
      /** Whether a rejection proposes the arguments of the steps of the other parity. */
      readonly proposes: boolean
      /** The standing grant that an approval asks for; null: none. */
      readonly grant: GrantPlan | null
      readonly key: number
    }
  /** Revokes the grant that was made with the approval of a step. */
  | { readonly _tag: "Revoke"; readonly session: number; readonly step: number; readonly key: number }
  | { readonly _tag: "Complete"; readonly session: number; readonly step: number }
  | { readonly _tag: "Close"; readonly session: number }
  | { readonly _tag: "ReplaceRules"; readonly organization: number; readonly rules: number }
)

/** Something that happens to an endpoint, by another process. */
export interface EndpointChange {
  readonly _tag: "ChangeEndpoint"
  readonly at: number
  readonly endpoint: number
  readonly active: boolean
}

/** A client begins to follow the events of a session. */
export interface Follow {
  readonly _tag: "Follow"
  readonly at: number
  readonly session: number
  readonly replica: number
  /** The longest time that it takes to read a page, in milliseconds. */
  readonly readMillis: number
  /** After how long it reconnects, in milliseconds; null: when its stream ends. */
  readonly reconnectMillis: number | null
}

export type Action = Request | EndpointChange | Follow | Fault

/** Everything about a run that is decided before it begins. */
export interface Plan {
  readonly seed: number
  readonly replicas: number
  readonly organizations: number
  /** The organization of each session. */
  readonly sessions: ReadonlyArray<number>
  /** The tool of each step of each session. */
  readonly steps: ReadonlyArray<ReadonlyArray<string>>
  /** The organization of each endpoint, and the event types that it subscribes to; null: all. */
  readonly endpoints: ReadonlyArray<{
    readonly organization: number
    readonly events: ReadonlyArray<string> | null
  }>
  /** Lists of rules: each organization begins with one. */
  readonly rules: ReadonlyArray<ReadonlyArray<ApprovalRule>>
  readonly connections: number
  /** Approvals that one transaction of the deadline worker transitions. */
  readonly deadlineBatch: number
  /** After how many operations a fiber yields. */
  readonly maxOpsBeforeYield: number
  /** Sorted by time. */
  readonly actions: ReadonlyArray<Action>
}

/** How long actions happen, in milliseconds. */
export const ACTION_MILLIS = 40_000

/** Tools, which the rules tell apart. The last one needs no rule: the built-in rule requires approval, for an hour. */
export const TOOLS = ["read", "write", "deploy", "pay", "delete", "other"] as const

/** The groups of people's keys, by their number. */
export const GROUPS: ReadonlyArray<ReadonlyArray<string>> = [["finance"], ["legal"], ["finance", "legal"], []]

/** Keys of people in each organization. The first two are reviewers, the others admins; the last one also submits steps. */
export const DECIDING_KEYS = 4

const isRequest = ({ _tag }: Action): boolean =>
  [
    "Open",
    "Step",
    "Decide",
    "Revoke",
    "Complete",
    "Close",
    "ReplaceRules",
    "ChangeEndpoint",
    "Follow"
  ].includes(_tag)

export const isFault = (action: Action): action is Fault => !isRequest(action)

const someRules = (random: RandomStream, list: number): ReadonlyArray<ApprovalRule> =>
  TOOLS.slice(0, -1).map((tool, index): ApprovalRule => {
    const review_seconds = random.int(1, 12)
    return {
      id: RuleId.make(`rul_${(list * TOOLS.length + index).toString(16).padStart(32, "0")}`),
      tool,
      action_class: "*",
      task_id: null,
      when: [],
      // The first tools need no person; each list of rules may say otherwise.
      effect: index === 0 ? random.pick(["allow", "allow", "reject"]) : random.pick(EFFECTS),
      review_seconds,
      expiring_seconds: random.pick([null, 0, Math.min(1, review_seconds - 1)]),
      escalation_seconds: random.chance(0.5) ? random.int(1, 8) : null,
      timeout_action: random.pick(["allow", "reject"]),
      self_approval: random.chance(0.5),
      quorum: random.pick(QUORUMS),
      reason: "",
      summary_template: null
    }
  })

/** Half of the rules ask for one person. */
const QUORUMS: readonly [Quorum, ...ReadonlyArray<Quorum>] = [
  DEFAULT_QUORUM,
  DEFAULT_QUORUM,
  DEFAULT_QUORUM,
  DEFAULT_QUORUM,
  [{ count: 2, group: null }],
  [{ count: 1, group: "finance" }],
  [
    { count: 1, group: "finance" },
    { count: 1, group: "legal" }
  ],
  [
    { count: 1, group: null },
    { count: 2, group: "legal" }
  ]
]

const EFFECTS = [
  "require_approval",
  "require_approval",
  "require_approval",
  "require_approval",
  "require_approval",
  "require_approval",
  "require_approval",
  "allow",
  "reject"
] as const

/** The steps of a session with several counter-proposals. */
const PROPOSING_STEPS = 8

/**
 * Rejects every other step of a session, mostly with a proposal of the same arguments, and submits the steps between them, which have
 * these arguments: so a session has several proposals at a time, some of them used.
 */
const actionsOfProposals = (
  random: RandomStream,
  session: number,
  someReplica: () => number
): ReadonlyArray<Action> => {
  const opened = random.between(0, ACTION_MILLIS / 2)
  const request = () => ({ session, replica: someReplica(), patienceMillis: null })
  const open: Action = { _tag: "Open", at: opened, ...request() }
  const proposed = opened + random.between(1_000, 3_000)
  return [
    open,
    ...Array.from({ length: PROPOSING_STEPS }, (_, step): ReadonlyArray<Action> => {
      if (step % 2 === 1)
        return [{ _tag: "Step", at: proposed + random.between(0, 1_500), step, ...request() }]
      const at = opened + random.between(20, 400)
      const reject = {
        _tag: "Decide",
        approves: false,
        proposes: random.chance(0.9),
        grant: null,
        // An admin of both groups, who requests nothing.
        key: 2
      } as const
      return [
        { _tag: "Step", at, step, ...request() },
        { ...reject, at: at + random.logarithmic(20, 900), step, ...request() }
      ]
    }).flat()
  ]
}

/** Makes the plan of a seed. */
export const makePlan = (seed: number): Plan => {
  const random = new RandomStream(`approvals ${seed}`)
  const votes = random.fork("votes")
  const proposing = random.fork("proposing")
  const replicas = random.pick([1, 2, 2, 3, 3, 3, 4])
  const organizations = random.int(1, 3)
  const someReplica = () => random.int(0, replicas - 1)
  const sessions = Array.from({ length: random.int(1, 6) }, () => random.int(0, organizations - 1))
  const steps = sessions.map(() => {
    // Many steps of few tools: a proposal is of the same tool.
    const tools = random.chance(0.5) ? TOOLS : ([random.pick(TOOLS), random.pick(TOOLS)] as const)
    return Array.from({ length: random.int(1, 10) }, () => random.pick(tools))
  })
  const endpoints = Array.from({ length: random.int(0, 4) }, () => ({
    organization: random.int(0, organizations - 1),
    events: random.chance(0.7)
      ? null
      : random
          .shuffle(["approval.requested", "approval.expiring", "approval.approved", "approval.expired"])
          .slice(0, 2)
  }))
  const rules = Array.from({ length: organizations + 2 }, (_, list) => someRules(random, list))
  const actions: Array<Action> = []
  const patience = () => (random.chance(0.06) ? random.logarithmic(1, 2_000) : null)

  for (const [session, list] of steps.entries()) {
    const opened = random.between(0, ACTION_MILLIS / 2)
    actions.push({ _tag: "Open", at: opened, session, replica: someReplica(), patienceMillis: null })
    for (let follower = random.int(0, 3); follower > 0; follower--) {
      actions.push({
        _tag: "Follow",
        at: opened + random.between(0, 15_000),
        session,
        replica: someReplica(),
        readMillis: random.chance(0.1) ? random.logarithmic(100, 45_000) : 20,
        reconnectMillis: random.chance(0.4) ? random.logarithmic(200, 20_000) : null
      })
    }
    for (const step of list.keys()) {
      const at = random.between(opened + 20, ACTION_MILLIS - 5_000)
      const request = () => ({ replica: someReplica(), patienceMillis: patience() })
      actions.push({ _tag: "Step", at, session, step, ...request() })
      for (let repeats = random.int(0, 4); repeats > 0; repeats--) {
        const later = at + (random.chance(0.3) ? random.next() * 20 : random.between(0, 15_000))
        actions.push({ _tag: "Step", at: later, session, step, ...request() })
        // A client that repeats it at once, because the first answer was lost on its way.
        if (random.chance(0.4)) {
          actions.push({ _tag: "Step", at: later + random.next() * 3, session, step, ...request() })
        }
      }
      for (
        let decisions = random.pick([0, 0, 1, 1, 2, 3, 4]), when = random.between(5, 14_000);
        decisions > 0;
        decisions--
      ) {
        // Several people decide at about the same time, or around a deadline, which is a whole number of seconds away.
        const around = random.chance(0.4) ? Math.round(when / 1_000) * 1_000 : when
        const decidedAt = at + Math.max(1, around + random.between(-30, 60))
        const approves = random.chance(0.6)
        const proposes = random.chance(0.6)
        const key = random.int(0, DECIDING_KEYS - 1)
        const grant: GrantPlan | null =
          approves && random.chance(0.7)
            ? {
                scope: random.pick(["arguments", "tool"] as const),
                lasts_seconds: random.int(2, 40),
                max_uses: random.pick([null, 1, 1, 2, 3])
              }
            : null
        actions.push({
          _tag: "Decide",
          at: decidedAt,
          session,
          step,
          approves,
          proposes,
          grant,
          key,
          ...request()
        })
        if (grant !== null && random.chance(0.5)) {
          const revokedAt = decidedAt + random.logarithmic(10, 8_000)
          actions.push({
            _tag: "Revoke",
            at: revokedAt,
            session,
            step,
            key: random.int(0, DECIDING_KEYS - 1),
            ...request()
          })
        }
        if (approves ? grant === null : !proposes) continue
        // The agent tries all steps with the proposed arguments, or of the granted tool, at about the same time.
        const tryAgainAt = decidedAt + random.logarithmic(1, 3_000)
        for (const [other, tool] of list.entries()) {
          if (tool !== list[step] || (!approves && other % 2 === step % 2)) continue
          const again = { _tag: "Step", session, step: other } as const
          actions.push({ ...again, at: tryAgainAt + random.next() * 20, ...request() })
        }
      }
      if (votes.chance(0.15)) {
        // All people approve, in any order: more than the quorum asks for, or some of the wrong group.
        for (const key of votes.shuffle([...Array(DECIDING_KEYS).keys()])) {
          actions.push({
            _tag: "Decide",
            at: at + votes.logarithmic(10, 2_000),
            session,
            step,
            approves: true,
            proposes: false,
            grant: null,
            key,
            replica: votes.int(0, replicas - 1),
            patienceMillis: null
          })
        }
      }
      for (let reports = random.int(0, 2); reports > 0; reports--) {
        const later = random.between(20, 20_000)
        actions.push({ _tag: "Complete", at: at + later, session, step, ...request() })
      }
    }
    if (random.chance(0.4)) {
      const at = random.between(opened + 500, ACTION_MILLIS)
      actions.push({ _tag: "Close", at, session, replica: someReplica(), patienceMillis: patience() })
      // Steps that are submitted, and requests to close it, at about the same time.
      for (let others = random.int(0, 4); others > 0; others--) {
        const request = {
          at: at + random.between(-5, 5),
          session,
          replica: someReplica(),
          patienceMillis: null
        }
        actions.push(
          random.chance(0.8)
            ? { _tag: "Step", step: random.int(0, list.length - 1), ...request }
            : { _tag: "Close", ...request }
        )
      }
    }
  }
  if (proposing.chance(0.3)) {
    const session = sessions.length
    sessions.push(proposing.int(0, organizations - 1))
    steps.push(Array.from({ length: PROPOSING_STEPS }, () => proposing.pick(["other", "other", "write"])))
    actions.push(...actionsOfProposals(proposing, session, () => proposing.int(0, replicas - 1)))
  }
  for (let changes = random.int(0, 4); changes > 0; changes--) {
    actions.push({
      _tag: "ReplaceRules",
      at: random.between(1_000, ACTION_MILLIS),
      organization: random.int(0, organizations - 1),
      rules: random.int(0, rules.length - 1),
      replica: someReplica(),
      patienceMillis: null
    })
  }
  for (let changes = endpoints.length === 0 ? 0 : random.int(0, 4); changes > 0; changes--) {
    actions.push({
      _tag: "ChangeEndpoint",
      at: random.between(1_000, ACTION_MILLIS),
      endpoint: random.int(0, endpoints.length - 1),
      active: random.chance(0.6)
    })
  }
  for (let faults = random.int(0, 20); faults > 0; faults--) {
    actions.push(makeFault(random, random.between(0, ACTION_MILLIS), someReplica()))
  }
  return {
    seed,
    replicas,
    organizations,
    sessions,
    steps,
    endpoints,
    rules,
    connections: random.pick([3, 6, 12]),
    deadlineBatch: random.pick([1_000, 1_000, 2]),
    maxOpsBeforeYield: random.pick([24, 200, 2_048]),
    actions: actions.filter(({ at }) => at < ACTION_MILLIS).toSorted((a, b) => a.at - b.at)
  }
}
