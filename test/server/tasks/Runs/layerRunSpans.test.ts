import { assert, it } from "@effect/vitest"
import { DateTime, Effect, Layer } from "effect"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { KeyId, OrgId, ReleaseId, RunId, TaskId, TraceId } from "../../../../src/domain/Ids.ts"
import { defaultProvider, noUsage } from "../../../../src/domain/tasks/Provider.ts"
import { type FinishedRun, RunFinished } from "../../../../src/server/tasks/Runs.ts"
import { layerRunSpans } from "../../../../src/server/tasks/Runs/layerRunSpans.ts"
import { type RecordedTrace, Spans } from "../../../../src/server/telemetry/Spans.ts"

const uuid = "00000000000070008000000000000000"

const runOf = (input: FinishedRun["input"], answer: FinishedRun["answer"]): FinishedRun => ({
  org_id: OrgId.make(`org_${uuid}`),
  trace_id: TraceId.make("a".repeat(32)),
  run_id: RunId.make(`run_${uuid}`),
  task_id: TaskId.make(`tsk_${uuid}`),
  task_name: "sort",
  release_id: ReleaseId.make(`rel_${uuid}`),
  dataset_id: null,
  session_id: null,
  source: "logged",
  input,
  answer,
  answer_repaired: false,
  failure: null,
  metadata: {},
  provider: defaultProvider,
  examples: [],
  answered_by: null,
  usage: noUsage,
  calls: [],
  caller_traceparent: null,
  created_at: DateTime.makeUnsafe(0),
  duration_ms: 1,
  awaits_review: false,
  created_by: { id: KeyId.make(`key_${uuid}`), name: "a key" }
})

/** Records a run. Returns the trace without its content, and weak references to the run's input and answer. */
const recordedRun = Effect.fnUntraced(function* () {
  const input = { text: "words" }
  const answer = { category: "other" }
  const seen: Array<RecordedTrace> = []
  const spans = Spans.of({
    record: (_org_id, ...recorded) => Effect.sync(() => void seen.push(...recorded)),
    invalidateDestination: () => Effect.void,
    localCounts: () => ({ waiting: 0, dropped: 0 }),
    flush: Effect.void
  })
  yield* Effect.flatMap(RunFinished, (finished) => finished(runOf(input, answer))).pipe(
    Effect.provide(layerRunSpans.pipe(Layer.provide(Layer.succeed(Spans, spans))))
  )
  const recorded = seen[0] ?? assert.fail("a trace")
  assert.deepStrictEqual(recorded.content, { input, answer })
  return { recorded: { ...recorded, content: {} }, words: [new WeakRef(input), new WeakRef(answer)] }
})

/** Runs a full garbage collection. */
const collectGarbage = Effect.promise(async () => {
  // A target of a WeakRef that was dereferenced or created in this tick stays alive until the tick ends.
  await new Promise(setImmediate)
  setFlagsFromString("--expose-gc")
  runInNewContext("gc")()
})

it.effect("a recorded run does not retain its input and answer after its content is dropped", () =>
  Effect.gen(function* () {
    const { recorded, words } = yield* recordedRun()
    yield* collectGarbage
    assert.deepStrictEqual(
      words.map((reference) => reference.deref()),
      [undefined, undefined]
    )
    assert.lengthOf(recorded.make(0, {}, { trace: "own", scores: "span" }), 1)
  })
)
