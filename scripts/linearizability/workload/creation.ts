import { randomUUID } from "node:crypto"
import type { KeyCall } from "../models/keyModel.ts"
import { makeRecorder, type Recorder } from "../record.ts"
import { pick, untilDefined, type World } from "./World.ts"

/** The history of one `Idempotency-Key`. */
export interface KeyHistory {
  readonly key: string
  readonly recorder: Recorder<KeyCall>
}

/** How many requests under one key are sent concurrently. */
const SENDERS = 3

/**
 * Creates something under an `Idempotency-Key` that several requests share, some of them with another body. Each is
 * repeated until it is answered. Returns the id that the first answer names.
 */
export const createOnce = async (
  world: World,
  create: (key: string, body: string) => Promise<string>
): Promise<{ readonly id: string; readonly history: KeyHistory }> => {
  const key = randomUUID()
  const recorder = makeRecorder<KeyCall>(world.counts)
  const sendUntilAnswered = async (sender: number): Promise<string> => {
    const body = pick(world.random, ["a", "a", "a", "b"])
    return untilDefined(() =>
      recorder.call(`sender ${sender}`, { kind: "create", body }, () => create(key, body))
    )
  }
  const answers = await Promise.all(
    Array.from({ length: 1 + Math.floor(world.random() * SENDERS) }, (_, sender) => sendUntilAnswered(sender))
  )
  const id = answers.find((answer) => !answer.startsWith("IDEMPOTENCY_KEY"))
  // If every sender was refused, somebody's unanswered request has created it.
  return { id: id ?? (await repeatBodies(recorder, key, create)), history: { key, recorder } }
}

/** Sends both bodies until one of them is answered with an id. */
const repeatBodies = async (
  recorder: Recorder<KeyCall>,
  key: string,
  create: (key: string, body: string) => Promise<string>
): Promise<string> =>
  untilDefined(async () => {
    for (const body of ["a", "b"]) {
      const answer = await recorder.call("late sender", { kind: "create", body }, () => create(key, body))
      if (answer !== undefined && !answer.startsWith("IDEMPOTENCY_KEY")) return answer
    }
    return undefined
  })
