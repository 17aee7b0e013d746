import { Schema } from "effect"
import { DatasetId, TaskId } from "../Ids.ts"

/** Seeds of a split: integers of four bytes. */
const MAX_SEED = 2 ** 31 - 1

const testShare = Schema.Finite.check(
  Schema.isBetween({ minimum: 0.01, maximum: 0.99 }, { expected: "a share from 0.01 to 0.99" })
)

const seed = Schema.Int.check(
  Schema.isBetween({ minimum: 0, maximum: MAX_SEED }, { expected: `a whole number from 0 to ${MAX_SEED}` })
)

export const LeaveOneOut = Schema.Struct({
  kind: Schema.Literal("leave_one_out").annotateKey({ description: "Always `leave_one_out`." })
}).annotate({
  identifier: "LeaveOneOut",
  description:
    "Every example is compared. Neither side sees an example with exactly the input that it answers, whichever dataset version it uses."
})

export const TrainTestSplit = Schema.Struct({
  kind: Schema.Literal("split").annotateKey({ description: "Always `split`." }),
  test_share: testShare.annotateKey({
    description: "Probability of an input to be in the test part, 0.01 to 0.99. Default 0.2."
  }),
  seed: seed.annotateKey({
    description: "Another seed makes another split, 0 to 2,147,483,647. Default 0."
  })
}).annotate({
  identifier: "TrainTestSplit",
  description:
    "Only the examples of the test part are compared, and both sides see examples of the other part only. The part depends on the input, the seed and the task alone, so it is the same in every dataset version."
})
export type TrainTestSplit = typeof TrainTestSplit.Type

export const NoHoldOut = Schema.Struct({
  kind: Schema.Literal("none").annotateKey({ description: "Always `none`." })
}).annotate({
  identifier: "NoHoldOut",
  description:
    "Every example is compared, and a side can answer it from the example itself: the agreement says nothing about other inputs."
})

/** The most examples of a benchmark. */
export const MAX_BENCHMARK = 10_000

export const NewBenchmark = Schema.Struct({
  kind: Schema.Literal("benchmark").annotateKey({ description: "Always `benchmark`." }),
  dataset_id: DatasetId.annotateKey({
    description: `A dataset version of another task with the same schemas, at most ${MAX_BENCHMARK.toLocaleString("en-US")} examples.`
  })
}).annotate({
  identifier: "NewBenchmark",
  description:
    "Compare the examples of a dataset that no prompt uses: the agreement is that on fixed inputs, whatever corrections the task's own dataset gets. A version that has inputs in common with those of the sides gets 422 `INVALID_COMPARISON` with their number."
})

export const Benchmark = Schema.Struct({
  ...NewBenchmark.fields,
  task_id: TaskId.annotateKey({ description: "The task of that dataset." })
}).annotate({
  identifier: "Benchmark",
  description:
    "The examples of a dataset of another task are compared. When the comparison started, neither side saw one of its inputs."
})

/** How a comparison keeps a side from seeing the expected answer. */
export const HoldOut = Schema.Union([LeaveOneOut, TrainTestSplit, Benchmark, NoHoldOut]).annotate({
  identifier: "HoldOut",
  description: "Which examples the sides of a comparison answer, and which ones they must not see."
})
export type HoldOut = typeof HoldOut.Type

export const NewTrainTestSplit = Schema.Struct({
  kind: TrainTestSplit.fields.kind,
  test_share: Schema.optionalKey(TrainTestSplit.fields.test_share),
  seed: Schema.optionalKey(TrainTestSplit.fields.seed)
}).annotate({
  identifier: "NewTrainTestSplit",
  description: "Compare a part of the examples, and let both sides see the other part only."
})

export const NewHoldOut = Schema.Union([LeaveOneOut, NewTrainTestSplit, NewBenchmark, NoHoldOut]).annotate({
  identifier: "NewHoldOut",
  description: "Which examples the sides answer, and which ones they must not see."
})
export type NewHoldOut = typeof NewHoldOut.Type

/** Nothing is held out: runs see every example of the release's dataset version. */
export const noHoldOut: HoldOut = { kind: "none" }

/** The hold-out to store, other than a benchmark: defaults filled in. */
export const withHoldOutDefaults = (
  given: Exclude<NewHoldOut, typeof NewBenchmark.Type> = { kind: "leave_one_out" }
): HoldOut =>
  given.kind === "split"
    ? { kind: "split", test_share: given.test_share ?? 0.2, seed: given.seed ?? 0 }
    : given
