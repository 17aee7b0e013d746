import { connect, type CountersignClient } from "../../../src/client/connect.ts"
import type { AnswerCounts } from "../record.ts"
import type { Replica } from "../replicas.ts"

/** An API key of the run's organization. */
export interface Person {
  readonly id: string
  readonly key: string
  readonly isAdmin: boolean
}

/** The people of the organization. */
export interface People {
  readonly admin: Person
  /** Runs agents. */
  readonly agent: Person
  /** Two people who decide and review. */
  readonly reviewers: readonly [Person, Person]
}

/** What a workload uses. */
export interface World {
  readonly replicas: ReadonlyArray<Replica>
  readonly people: People
  readonly counts: AnswerCounts
  /** In [0, 1). */
  readonly random: () => number
  /** A client of some replica. */
  readonly clientOf: (person: Person) => CountersignClient
  /** Whether no further operations shall begin. */
  readonly isOver: () => boolean
  /** A short pause, as a person or an agent makes between two calls. */
  readonly think: () => Promise<void>
}

/** How long a client waits for an answer: longer than a short freeze, shorter than a long one. */
const CALL_TIMEOUT = "3 seconds"

/** The longest pause of a client between two calls. */
const THINK_MILLIS = 60

export const makeWorld = (options: {
  readonly replicas: ReadonlyArray<Replica>
  readonly people: People
  readonly random: () => number
  readonly isOver: () => boolean
}): World => {
  const clients = new Map<string, CountersignClient>()
  const { random, replicas } = options
  return {
    ...options,
    counts: new Map(),
    clientOf: ({ key }) => {
      // As a load balancer does, which notices soon that nothing listens, but not that a process is frozen.
      const listening = replicas.filter((replica) => replica.isReady())
      const { url } = pick(random, listening.length === 0 ? replicas : listening)
      const name = `${url} ${key}`
      const client = clients.get(name) ?? connect({ url, key, retries: 0, timeout: CALL_TIMEOUT })
      clients.set(name, client)
      return client
    },
    think: () => sleep(random() * THINK_MILLIS)
  }
}

export const sleep = (millis: number): Promise<void> => new Promise((done) => setTimeout(done, millis))

/** An element of a list that is not empty. */
export const pick = <A>(random: () => number, list: ReadonlyArray<A>): A => {
  const found = list[Math.floor(random() * list.length)]
  if (found === undefined) throw new RangeError("There is nothing to choose from")
  return found
}

/** An element of a list, chosen by weight. */
export const pickWeighted = <A>(
  random: () => number,
  choices: ReadonlyArray<readonly [weight: number, choice: A]>
): A => {
  let left = random() * choices.reduce((sum, [weight]) => sum + weight, 0)
  for (const [weight, choice] of choices) {
    left -= weight
    if (left < 0) return choice
  }
  return pick(random, choices)[1]
}

/** Pause before a call is repeated until it is answered. */
const REPEAT_MILLIS = 100

/** Repeats a call until it has a result. */
export const untilDefined = async <A>(call: () => Promise<A | undefined>): Promise<A> => {
  for (;;) {
    const result = await call()
    if (result !== undefined) return result
    await sleep(REPEAT_MILLIS)
  }
}

/** Repeats an idempotent call until it succeeds: for what a round needs before its operations are recorded. */
export const untilAnswered = <A extends {}>(call: () => Promise<A>): Promise<A> =>
  untilDefined(() => call().catch(() => undefined))
