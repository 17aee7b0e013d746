import { randomUUID } from "node:crypto"
import { type DatasetCall, datasetAnswers } from "../models/datasetModel.ts"
import { makeRecorder, type Recorder } from "../record.ts"
import { createOnce, type KeyHistory } from "./creation.ts"
import { type Person, pick, pickWeighted, untilAnswered, type World } from "./World.ts"

/** What happened to one task's dataset. */
export interface DatasetHistory {
  readonly task_id: string
  /** The first version; it exists before the operations. */
  readonly first: string
  /** The corrections; they are pending before the operations. */
  readonly feedback: ReadonlyArray<string>
  readonly recorder: Recorder<DatasetCall>
  /** The histories of the corrections' keys, by the run of each. */
  readonly keys: ReadonlyMap<string, KeyHistory>
}

const CORRECTIONS = 5

/** Operations of each client of a dataset. */
const OPERATIONS = 14

const task = {
  name: "sort messages",
  instructions: "Sort the message.",
  input_schema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  answer_schema: { type: "object", properties: { category: { type: "string" } }, required: ["category"] }
}

/** Runs one task: reviewers judge its corrections while administrators promote them. */
export const runDataset = async (world: World): Promise<DatasetHistory> => {
  const { admin, reviewers } = world.people
  const key = () => ({ "idempotency-key": randomUUID() })
  const taskKey = key()
  const { id: task_id } = await untilAnswered(() =>
    world.clientOf(admin).tasks.create({ headers: taskKey, payload: task })
  )
  const params = { id: task_id }
  const datasetKey = key()
  const { id: first } = await untilAnswered(() =>
    world.clientOf(admin).datasets.create({
      headers: datasetKey,
      params,
      payload: { examples: [{ input: { text: "first" }, answer: { category: "other" } }] }
    })
  )
  const corrections = await Promise.all(
    Array.from({ length: CORRECTIONS }, async (_, number) => {
      const runKey = key()
      const { trace_id } = await untilAnswered(() =>
        world.clientOf(admin).tasks.run({
          headers: runKey,
          params,
          payload: { input: { text: `message ${number}` }, answer: { category: "other" } }
        })
      )
      const { history, id } = await createOnce(world, async (idempotencyKey, body) => {
        const created = await world.clientOf(reviewers[0]).feedback.create({
          headers: { "idempotency-key": idempotencyKey },
          payload: { inference_log_id: trace_id, score: -1, correction: { category: body } }
        })
        return created.id
      })
      return { id, trace_id, history }
    })
  )
  const feedback = corrections.map(({ id }) => id)
  const recorder = makeRecorder<DatasetCall>(world.counts)
  const client = makeDatasetClient(world, task_id, feedback, recorder)
  const { random } = world
  const loop = async (act: () => Promise<unknown>) => {
    for (let count = 0; count < OPERATIONS && !world.isOver(); count++) {
      await act()
      await world.think()
    }
  }
  const reviewerActs = (name: string, person: Person) => () =>
    pickWeighted(random, [
      [4, () => client.stage(name, person)],
      [1, () => client.reject(name, person)],
      [2, () => client.get(name, person)]
    ])()
  const adminActs = (name: string) => () =>
    pickWeighted<() => Promise<unknown>>(random, [
      [2, () => client.preview(name)],
      [3, () => client.promote(name)],
      [1, () => client.listVersions(name)],
      [1, () => client.getTask(name)]
    ])()
  await Promise.all([
    loop(reviewerActs("first reviewer", reviewers[0])),
    loop(reviewerActs("second reviewer", reviewers[1])),
    loop(adminActs("first administrator")),
    loop(adminActs("second administrator"))
  ])
  return {
    task_id,
    first,
    feedback,
    recorder,
    keys: new Map(corrections.map(({ history, trace_id }) => [trace_id, history]))
  }
}

/** A promotion that was previewed, and the key under which it is sent. */
interface Promotion {
  readonly base: string | null
  readonly staged: ReadonlyArray<string>
  readonly revision: string
  readonly key: string | null
}

/** The calls of a dataset's clients. */
const makeDatasetClient = (
  world: World,
  task_id: string,
  feedback: ReadonlyArray<string>,
  recorder: Recorder<DatasetCall>
) => {
  const { random } = world
  const { admin } = world.people
  const params = { id: task_id }
  /** Promotions that may be sent again: their preview may be outdated by then. */
  const promotions: Array<Promotion> = []

  const preview = async (name: string): Promise<void> => {
    await recorder.call(name, { kind: "preview" }, async () => {
      const { base_dataset_id, corrections, feedback_revision } = await world
        .clientOf(admin)
        .feedback.previewPromotion({ params, query: { limit: 100 } })
      const staged = corrections.map(({ id }) => id).toSorted()
      const key = random() < 0.5 ? randomUUID() : null
      promotions.push({ base: base_dataset_id, staged, revision: feedback_revision, key })
      return datasetAnswers.preview(base_dataset_id, staged)
    })
  }

  return {
    preview,
    stage: async (name: string, person: Person) => {
      const id = pick(random, feedback)
      await recorder.call(name, { kind: "stage", feedback: id }, async () => {
        const { dataset_id, status } = await world.clientOf(person).feedback.stage({ params: { id } })
        return datasetAnswers.status(status, dataset_id)
      })
    },
    reject: async (name: string, person: Person) => {
      const id = pick(random, feedback)
      await recorder.call(name, { kind: "reject", feedback: id }, async () => {
        const { dataset_id, status } = await world.clientOf(person).feedback.reject({ params: { id } })
        return datasetAnswers.status(status, dataset_id)
      })
    },
    get: async (name: string, person: Person) => {
      const id = pick(random, feedback)
      await recorder.call(name, { kind: "get", feedback: id }, async () => {
        const { dataset_id, status } = await world.clientOf(person).feedback.get({ params: { id } })
        return datasetAnswers.status(status, dataset_id)
      })
    },
    promote: async (name: string) => {
      if (promotions.length === 0 || random() < 0.6) await preview(name)
      // Mostly the newest preview, and sometimes an outdated one.
      const promotion =
        random() < 0.7 ? promotions.at(-1) : promotions[Math.floor(random() * promotions.length)]
      if (promotion === undefined) return
      const { base, key, revision, staged } = promotion
      await recorder.call(name, { kind: "promote", base, staged, key }, async () => {
        const { dataset, promoted } = await world.clientOf(admin).feedback.promote({
          ...(key === null ? {} : { headers: { "idempotency-key": key } }),
          params,
          payload: { base_dataset_id: base, expected_feedback_revision: revision }
        })
        return datasetAnswers.promoted(
          { id: dataset.id, base: dataset.base_dataset_id, version: dataset.version },
          promoted.toSorted()
        )
      })
    },
    listVersions: (name: string) =>
      recorder.call(name, { kind: "list versions" }, async () => {
        const { datasets } = await world.clientOf(admin).datasets.list({ params, query: { limit: 100 } })
        return datasetAnswers.versions(datasets.map(({ id }) => id))
      }),
    getTask: (name: string) =>
      recorder.call(name, { kind: "get task" }, async () => {
        const { dataset_id } = await world.clientOf(admin).tasks.get({ params })
        return dataset_id ?? "no version"
      })
  }
}
