import type { Approval } from "../../../src/client/connect/index.ts"
import {
  approvalAnswer,
  claimAnswer,
  decisionAnswer,
  listAnswer,
  proposalOf,
  type SessionCall,
  stepAnswer,
  votersOf
} from "../models/sessionModel.ts"
import { makeRecorder, type Recorder } from "../record.ts"
import { createOnce, type KeyHistory } from "./creation.ts"
import { followStream, type Received } from "./followStream.ts"
import { tools, type Tool } from "./rules.ts"
import { type Person, pick, pickWeighted, untilDefined, type World } from "./World.ts"

/** What happened to one session. */
export interface SessionHistory {
  readonly session_id: string
  readonly steps: ReadonlyMap<string, Tool>
  readonly recorder: Recorder<SessionCall>
  readonly received: Received
  readonly key: KeyHistory
}

/** Operations of each client of a session, before somebody closes it. */
const OPERATIONS = 14

/** How many rejections propose the arguments of another step. */
const PROPOSING = 0.8

const argumentsOf = (step: string) => ({ step })

/** Submissions of the agent's two clients after which all steps of a session may have been submitted. */
const SUBMISSIONS = 10

/** How often a session is closed while its clients still work. */
const CLOSED_EARLY = 0.5

/** The tools whose steps people decide. */
const approvedTools = tools.filter(({ rule }) => rule === "require_approval")

/** The steps of a session: one or two of each tool, and one more of those that people decide, so that they can propose another one. */
const planSteps = (random: () => number): ReadonlyMap<string, Tool> =>
  new Map(
    tools
      .flatMap((tool) => (random() < 0.5 ? [tool] : [tool, tool]))
      .concat(approvedTools)
      .map((tool, index) => [`${tool.tool}${index}`, tool])
  )

/** Runs one session: its agent, two reviewers, an administrator and a reader work on the same few steps. */
export const runSession = async (world: World): Promise<SessionHistory> => {
  const { admin, agent, reviewers } = world.people
  const { history: key, id: session_id } = await createOnce(world, async (idempotencyKey, body) => {
    const session = await world.clientOf(agent).sessions.create({
      headers: { "idempotency-key": idempotencyKey },
      payload: { metadata: { key: idempotencyKey, body } }
    })
    return session.session_id
  })
  const recorder = makeRecorder<SessionCall>(world.counts)
  const steps = planSteps(world.random)
  const client = makeSessionClient(world, session_id, steps, recorder)
  const following = followStream(world, session_id, recorder)

  const loop = async (act: () => Promise<unknown>) => {
    for (let count = 0; count < OPERATIONS && !world.isOver(); count++) {
      await act()
      await world.think()
    }
  }
  const { random } = world
  const agentActs = () =>
    pickWeighted<() => Promise<unknown>>(random, [
      [6, client.step],
      [3, client.claim],
      [3, client.complete],
      [1, () => client.stepChanged()],
      [0.3, () => client.decide("agent", agent)],
      [1, () => client.getSession("agent")]
    ])()
  const personActs = (name: string, person: Person) => () =>
    pickWeighted<() => Promise<unknown>>(random, [
      [6, () => client.decide(name, person)],
      [2, () => client.getApproval(name, person)],
      [1, () => client.listApprovals(name, person)]
    ])()
  const closing = random() < CLOSED_EARLY ? Math.floor(random() * OPERATIONS) : OPERATIONS
  let turn = 0
  const adminActs = async () => {
    if (turn++ === closing) await client.close("admin")
    else await personActs("admin", admin)()
  }
  await Promise.all([
    loop(agentActs),
    loop(agentActs),
    loop(personActs("first reviewer", reviewers[0])),
    loop(personActs("second reviewer", reviewers[1])),
    loop(adminActs)
  ])
  // A closed session has its whole log, and its stream ends.
  await untilDefined(() => client.close("agent"))
  return { session_id, steps, recorder, received: await following, key }
}

const describeApproval = (approval: Approval): string => {
  const { decided_by, decision_source, stage, status } = approval
  return approvalAnswer({
    status,
    stage,
    by: decided_by?.id ?? null,
    source: decision_source,
    voters: votersOf(approval),
    proposal: proposalOf(approval)
  })
}

/** The calls of a session's clients. */
const makeSessionClient = (
  world: World,
  session_id: string,
  steps: ReadonlyMap<string, Tool>,
  recorder: Recorder<SessionCall>
) => {
  const { random } = world
  const { admin, agent, reviewers } = world.people
  const params = { id: session_id }
  /** The approvals whose ids the clients have seen, by step. */
  const approvals = new Map<string, string>()
  /** Steps that are known to exist. */
  const known = new Set<string>()
  /** The claims that the agent has, by step. */
  const claims = new Map<string, string>()
  let agents = 0
  let submissions = 0
  /** Steps whose arguments people have proposed. */
  const proposals = new Set<string>()

  const submit = (step: string, { rule, tool }: Tool, changed: boolean) =>
    recorder.call(`agent ${++agents % 2}`, { kind: "step", step, rule, changed }, async () => {
      const { approval_id, decision } = await world.clientOf(agent).sessions.step({
        params,
        payload: {
          step_id: step,
          tool,
          action_class: "act",
          arguments: changed ? { other: true } : argumentsOf(step)
        }
      })
      known.add(step)
      // A step that a proposal allowed is answered with the approval of the rejected step, which is known.
      const isOwn = ![...approvals].some(([other, id]) => other !== step && id === approval_id)
      if (approval_id !== null && isOwn) approvals.set(step, approval_id)
      return stepAnswer(decision, approval_id)
    })

  /** Another step of the tool, mostly one that the agent has not submitted yet; null if there is none. */
  const otherStep = (step: string): string | null => {
    const others = [...steps].flatMap(([other, tool]) =>
      other !== step && tool === steps.get(step) ? [other] : []
    )
    const left = others.filter((other) => !known.has(other))
    const choices = left.length > 0 && random() < 0.8 ? left : others
    return choices.length === 0 ? null : pick(random, choices)
  }

  /** Calls with an approval of the session, if one is known. */
  const withApproval = async (use: (step: string, id: string) => Promise<unknown>): Promise<void> => {
    if (approvals.size === 0) return
    const [step, id] = pick(random, [...approvals])
    await use(step, id)
  }

  return {
    step: async () => {
      // An agent submits what a person has proposed. The last steps are left until then, or until the end.
      const proposed = [...proposals].filter((step) => !known.has(step))
      const early = [...steps].slice(0, ++submissions < SUBMISSIONS ? -approvedTools.length : undefined)
      const step = proposed.length > 0 && random() < 0.8 ? pick(random, proposed) : pick(random, early)[0]
      const tool = steps.get(step)
      if (tool !== undefined) await submit(step, tool, false)
    },
    /** Only of a step that exists: a new one would be saved with the other arguments. */
    stepChanged: async () => {
      if (known.size === 0) return
      const step = pick(random, [...known])
      const tool = steps.get(step)
      if (tool !== undefined) await submit(step, tool, true)
    },
    /** Claims a step, mostly one that exists. */
    claim: async () => {
      const [step] = known.size > 0 && random() < 0.9 ? [pick(random, [...known])] : pick(random, [...steps])
      await recorder.call(`agent ${++agents % 2}`, { kind: "claim", step }, async () => {
        const { claim } = await world.clientOf(agent).sessions.claim({
          params: { id: session_id, step_id: step }
        })
        claims.set(step, claim.id)
        return claimAnswer(claim.id)
      })
    },
    /** Reports an outcome, mostly under the claim if the agent has one. */
    complete: async () => {
      const [step] = pick(random, [...steps])
      const claim = random() < 0.9 ? (claims.get(step) ?? null) : null
      await recorder.call(`agent ${++agents % 2}`, { kind: "report the outcome", step, claim }, async () => {
        await world.clientOf(agent).sessions.reportOutcome({
          params: { id: session_id, step_id: step },
          payload: { status: "succeeded", ...(claim === null ? {} : { claim_id: claim }) }
        })
        return "recorded"
      })
    },
    decide: (name: string, person: Person) =>
      withApproval(async (step, id) => {
        const decision = pick(random, ["approve", "reject"] as const)
        const proposes = decision === "reject" && random() < PROPOSING ? otherStep(step) : null
        const call = {
          kind: "decide" as const,
          step,
          decision,
          proposes,
          key: person.id,
          isAdmin: person.isAdmin,
          isRequester: person.id === agent.id,
          // The administrator made the other keys.
          relatives: person.isAdmin ? [agent.id, ...reviewers.map(({ id }) => id)] : [admin.id],
          sentAt: Date.now()
        }
        await recorder.call(name, call, async () => {
          const approval = await world.clientOf(person).approvals.decide({
            params: { id },
            payload: {
              decision,
              ...(proposes === null ? {} : { proposed_arguments: argumentsOf(proposes) })
            }
          })
          if (proposes !== null) proposals.add(proposes)
          return decisionAnswer(approval.status, approval.decided_by?.id ?? "nobody", votersOf(approval))
        })
      }),
    getApproval: (name: string, person: Person) =>
      withApproval((step, id) =>
        recorder.call(name, { kind: "get the approval", step }, async () =>
          describeApproval(await world.clientOf(person).approvals.get({ params: { id } }))
        )
      ),
    listApprovals: (name: string, person: Person) =>
      recorder.call(name, { kind: "list approvals" }, async () => {
        const list = await world.clientOf(person).approvals.list({ query: { session_id, limit: 100 } })
        for (const { approval_id, step_id } of list.approvals) approvals.set(step_id, approval_id)
        return listAnswer(list.approvals.map((one) => [one.step_id, describeApproval(one)]))
      }),
    getSession: (name: string) =>
      recorder.call(name, { kind: "get the session" }, async () => {
        const { status } = await world.clientOf(agent).sessions.get({ params })
        return status
      }),
    close: (name: string) =>
      recorder.call(name, { kind: "close" }, async () => {
        const { status } = await world.clientOf(agent).sessions.close({ params })
        return status
      })
  }
}
