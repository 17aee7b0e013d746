import { Context, Effect, Layer, Option, Schema, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import { notFound } from "../../api/notFound.ts"
import type { NotFound } from "../../api/Problems.ts"
import type { DatasetId, ExampleId, FeedbackId, OrgId, ReleaseId, TaskId } from "../../domain/Ids.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import { isEqualJson } from "../../domain/json/isEqualJson.ts"
import { redactText } from "../../domain/redaction/Redaction.ts"
import { type Example, JsonObject } from "../../domain/tasks/Dataset.ts"
import {
  type ChatExample,
  type PreferenceForm,
  type PreferencePair,
  toPreferencePair
} from "../../domain/tasks/TrainingExample.ts"
import { Audit } from "../identity/Audit.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import type { ExportedLine } from "../store/Pagination.ts"
import { atomic } from "../store/transaction.ts"
import { Datasets } from "./Datasets.ts"
import { findVersion } from "./Datasets/versionRows.ts"
import { initialMessages } from "./Providers/chatRequest.ts"
import { redactObject } from "./redactJson.ts"
import { findRelease } from "./Releases/rows.ts"
import { findTask, readSchemas } from "./Tasks/rows.ts"
import { rowsOf } from "../store/rows.ts"

/** The start and the instructions of an export. */
interface TrainingOptions {
  /** The last example of the previous page. Default: the export starts with the newest. */
  readonly cursor?: ExampleId
  /** The release whose instructions the prompts have. Default: the task's live release. */
  readonly release_id?: ReleaseId
}

/**
 * Dataset versions as files to train models with. The prompts are as a run of the release sends them to a model, without examples of
 * the dataset, from which a trained model has learned already. Each export reads a page at a time, as the stream is consumed, removes
 * protected values, and is audited.
 */
export class TrainingExports extends Context.Service<
  TrainingExports,
  {
    /** Streams the examples of a version as chats, newest first. */
    readonly chats: (
      id: DatasetId,
      options: TrainingOptions
    ) => Effect.Effect<Stream.Stream<ExportedLine<ChatExample>>, NotFound, Authorized<"datasets.read">>
    /**
     * Streams the promoted corrections of a version beside the answers that they correct, newest first. Examples that no run was corrected
     * for, and corrections of runs that failed or whose answer was the same, have no pair.
     */
    readonly preferences: (
      id: DatasetId,
      options: TrainingOptions & { readonly form: PreferenceForm }
    ) => Effect.Effect<Stream.Stream<ExportedLine<PreferencePair>>, NotFound, Authorized<"feedback.read">>
  }
>()("countersign/server/tasks/TrainingExports") {
  static readonly layer = Layer.effect(
    TrainingExports,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const audit = yield* Audit
      const datasets = yield* Datasets
      const secrets = yield* KnownSecrets

      /** Reads the release, which has to be of the version's task. */
      const releaseOf = Effect.fnUntraced(function* (
        org_id: OrgId,
        task_id: TaskId,
        release_id: ReleaseId | undefined
      ) {
        const task = yield* Effect.orDie(findTask(sql, org_id, task_id))
        const release = yield* Effect.orDie(findRelease(sql, org_id, release_id ?? task.live_release_id))
        if (release === undefined || release.task_id !== task_id)
          return yield* notFound("release", "#/release_id")
        return release
      })

      /** Records the export, and returns the function that makes the prompt of an input, with the version's examples. */
      const begin = Effect.fnUntraced(function* (
        principal: Principal,
        id: DatasetId,
        format: string,
        { cursor, release_id }: TrainingOptions
      ) {
        const { org_id } = principal
        const version = (yield* Effect.orDie(findVersion(sql, org_id, id))) ?? (yield* notFound("dataset"))
        const { task_id } = version
        const known = yield* secrets.forOrg(org_id)
        const release = yield* releaseOf(org_id, task_id, release_id)
        const instructions = redactText(release.instructions, known)
        const { answer_schema } = yield* readSchemas(sql, org_id, task_id)
        yield* atomically(
          audit.record(principal, "dataset.exported", id, { task_id, version: version.version, format })
        )
        return {
          examples: yield* datasets.exportFor(org_id, id, cursor),
          promptOf: (input: JsonObject) =>
            initialMessages(release.provider, instructions, input, answer_schema),
          known
        }
      })

      return TrainingExports.of({
        chats: Effect.fn("TrainingExports.chats")(function* (id, options) {
          const principal = yield* Authorized("datasets.read")
          const { examples, promptOf } = yield* begin(principal, id, "chat", options)
          return Stream.map(examples, ({ answer, id: example, input }) => ({
            id: example,
            line: Option.some<ChatExample>({
              messages: [...promptOf(input), { role: "assistant", content: JSON.stringify(answer) }]
            })
          }))
        }),
        preferences: Effect.fn("TrainingExports.preferences")(function* (id, options) {
          const principal = yield* Authorized("feedback.read")
          const { examples, known, promptOf } = yield* begin(principal, id, "preferences", options)
          // One answer at a time: a page of them could be large.
          const pairOf = Effect.fnUntraced(function* ({ answer, input, source_feedback_id }: Example) {
            if (source_feedback_id === null) return Option.none<PreferencePair>()
            const corrected = yield* Effect.orDie(
              readCorrectedAnswer(sql, principal.org_id, source_feedback_id)
            )
            if (corrected === null) return Option.none<PreferencePair>()
            const rejected = yield* redactObject(corrected, known, "#")
            if (isEqualJson(rejected.value, answer)) return Option.none<PreferencePair>()
            return Option.some(
              toPreferencePair(
                promptOf(input),
                { chosen: JSON.stringify(answer), rejected: JSON.stringify(rejected.value) },
                options.form
              )
            )
          })
          return Stream.mapEffect(examples, (example) =>
            Effect.map(pairOf(example), (line) => ({ id: example.id, line }))
          )
        })
      })
    })
  )
}

const answerRows = rowsOf(Schema.Struct({ answer: Schema.NullOr(JsonObject) }))

/** Reads the answer that feedback corrects; null if the run failed, or if the run or the feedback was deleted. */
const readCorrectedAnswer = (sql: SqlClient.SqlClient, org_id: OrgId, feedback_id: FeedbackId) =>
  Effect.map(
    answerRows.first(sql`
      SELECT runs.answer
      FROM feedback
        JOIN runs USING (org_id, trace_id)
      WHERE feedback.org_id = ${org_id}
        AND feedback.feedback_id = ${feedback_id}
    `),
    (row) => row?.answer ?? null
  )
