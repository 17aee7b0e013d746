import { Effect, Exit, Result, Schema } from "effect"
import { Atom } from "effect/reactivity"
import { type ComponentProps, useState } from "react"
import type { PlaygroundAnswer } from "../../../api/console/Playground.ts"
import { DatasetId, ReleaseId, TraceId } from "../../../domain/Ids.ts"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import type { Task } from "../../../domain/tasks/Task.ts"
import { Link } from "../../app/router.tsx"
import { apiClient } from "../../state/apiClient.ts"
import { useAtomValue } from "../../state/atoms.ts"
import { consoleClient } from "../../state/consoleClient.ts"
import { useKeptWork } from "../../state/keptWork.ts"
import { useLoadedItems } from "../../state/pagedAtom.ts"
import { defineQuery } from "../../state/queryState.ts"
import { useCan } from "../../state/session.ts"
import { datasetsAtom, releasesAtom } from "../../state/tasks.ts"
import { announce } from "../../ui/announce.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Button } from "../../ui/Button.tsx"
import { Diff, jsonEquals } from "../../ui/Diff.tsx"
import { type Failure, failureOfAction } from "../../ui/Failure.ts"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { SchemaForm } from "../../ui/schemaForm/SchemaForm.tsx"
import {
  type DraftFault,
  emptyDraft,
  fromDraft,
  isValueDraft,
  toDraft,
  type ValueDraft
} from "../../ui/schemaForm/ValueDraft.ts"
import { InlineSelect, SelectField } from "../../ui/Select.tsx"
import { summarizeJsonStart } from "../../ui/summarizeJson.ts"
import { useQueryState } from "../../ui/useQueryState.ts"
import { PlaygroundResult } from "./PlaygroundResult.tsx"

/** The working copy, or a release. */
const Source = Schema.Union([Schema.Literal("draft"), ReleaseId])
type Source = typeof Source.Type

const parameters = defineQuery({
  left: Source,
  right: Source,
  left_data: DatasetId,
  right_data: DatasetId,
  run: TraceId
})

/** The newest runs whose input can be taken. */
const inputsAtom = Atom.family((task_id: Task["id"]) =>
  Atom.make(consoleClient.run_rows.list({ query: { task_id, limit: 20 } }))
)

const runInputAtom = Atom.family((trace_id: TraceId) =>
  Atom.make(Effect.map(apiClient.runs.get({ params: { id: trace_id } }), ({ input }) => input))
)

/** Tries one input on two sides, such as the live release and the working copy. */
export const Playground = ({ task }: { readonly task: Task }) => {
  const [{ run }, setQuery] = useQueryState(parameters)
  const can = useCan()
  if (!can("tasks.write")) return <p className="quiet">The playground needs the scope tasks.write.</p>
  return (
    <div className="stack">
      <p className="quiet">
        Answers one input with two releases, or with the working copy, side by side. Nothing is logged: to
        keep an answer, run the task.
      </p>
      {run === undefined || !can("runs.read") ? (
        <Sides task={task} from={undefined} onRun={(id) => setQuery({ run: id })} />
      ) : (
        <FromRun task={task} run={run} onRun={(id) => setQuery({ run: id })} />
      )}
    </div>
  )
}

const FromRun = ({
  onRun,
  run,
  task
}: {
  readonly task: Task
  readonly run: TraceId
  readonly onRun: (run: TraceId | undefined) => void
}) => {
  const atom = runInputAtom(run)
  return (
    <AsyncContent atom={atom}>
      {(input) => <Sides key={run} task={task} from={{ run, input }} onRun={onRun} />}
    </AsyncContent>
  )
}

/** What became of one side. */
interface Tried {
  readonly answer: PlaygroundAnswer | undefined
  readonly failure: Failure | undefined
}

/** Where the input is in the request, as the service names places. */
const PATH = ["input"]

const isObject = (value: Schema.Json): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const Sides = ({
  from,
  onRun,
  task
}: {
  readonly task: Task
  /** The run whose input is tried first. */
  readonly from: { readonly run: TraceId; readonly input: JsonObject } | undefined
  readonly onRun: (run: TraceId | undefined) => void
}) => {
  const [query, setQuery] = useQueryState(parameters)
  const can = useCan()
  const schema = task.input_schema
  const kept = useKeptWork<ValueDraft>({
    name: `playground ${task.id} ${from?.run ?? ""}`,
    base: "",
    initial: () => (from === undefined ? emptyDraft(schema, schema) : toDraft(schema, schema, from.input)),
    toStored: (work) => work,
    restore: (stored) => (isValueDraft(stored) ? stored : undefined)
  })
  const draft = kept.work
  const [faults, setFaults] = useState<ReadonlyArray<DraftFault>>([])
  const [tried, setTried] = useState<{ readonly left: Tried; readonly right: Tried }>()
  const [waiting, setWaiting] = useState(0)
  const sides = {
    left: { source: query.left ?? task.live_release_id, data: query.left_data },
    right: { source: query.right ?? "draft", data: query.right_data }
  } as const
  const value = fromDraft(draft, PATH)
  const answer = async (input: JsonObject, { data, source }: (typeof sides)["left" | "right"]) => {
    const exit = await Effect.runPromiseExit(
      consoleClient.playground.answer({
        params: { id: task.id },
        payload: {
          input,
          ...(source === "draft" ? {} : { release_id: source }),
          ...(data === undefined ? {} : { dataset_id: data })
        }
      })
    )
    const found: Tried = Exit.isSuccess(exit)
      ? { answer: exit.value, failure: undefined }
      : { answer: undefined, failure: failureOfAction(exit.cause) }
    return found
  }
  const tryBoth = async () => {
    if (waiting > 0) return
    if (Result.isFailure(value)) {
      setFaults(value.failure)
      return
    }
    const input = value.success
    if (!isObject(input)) {
      setFaults([{ pointer: "#/input", detail: "Must be a JSON object: { … }" }])
      return
    }
    setFaults([])
    const none: Tried = { answer: undefined, failure: undefined }
    setTried({ left: none, right: none })
    setWaiting(2)
    const put = async (side: "left" | "right") => {
      const found = await answer(input, sides[side])
      // Both sides report an invalid input; it is shown once, at its fields.
      if (found.failure?.code === "INVALID_INPUT") setFaults(found.failure.errors)
      setTried((before) => ({ left: none, right: none, ...before, [side]: found }))
      setWaiting((count) => count - 1)
    }
    await Promise.all([put("left"), put("right")])
    announce("Both sides have answered")
  }
  const left = tried?.left.answer
  const right = tried?.right.answer
  const isInvalid = tried?.left.failure?.code === "INVALID_INPUT"
  return (
    <>
      <form
        className="card padded stack"
        aria-label="Input"
        onSubmit={(event) => {
          event.preventDefault()
          void tryBoth()
        }}
      >
        <div className="change-head">
          <h2>Input</h2>
          {can("runs.read") ? <RunInput task={task} run={from?.run} onChoose={onRun} /> : null}
        </div>
        {from === undefined ? null : (
          <p className="quiet small">
            From <Link to={`/runs/${from.run}`}>run {from.run.slice(0, 8)}</Link>.{" "}
            <Button small kind="bare" onClick={kept.discard}>
              Reset
            </Button>
          </p>
        )}
        <SchemaForm
          root={schema}
          draft={draft}
          onChange={kept.setWork}
          faults={faults}
          path={PATH}
          label="Input"
        />
        <div className="playground-sides">
          <SideFields
            task={task}
            label="Left side"
            source={sides.left.source}
            data={sides.left.data}
            onSource={(source) => setQuery({ left: source })}
            onData={(data) => setQuery({ left_data: data })}
          />
          <SideFields
            task={task}
            label="Right side"
            source={sides.right.source}
            data={sides.right.data}
            onSource={(source) => setQuery({ right: source })}
            onData={(data) => setQuery({ right_data: data })}
          />
        </div>
        <div className="dialog-actions">
          <Button kind="primary" type="submit" pending={waiting > 0}>
            Try both
          </Button>
        </div>
      </form>
      {tried === undefined || isInvalid ? null : (
        <>
          <div className="playground-sides">
            {(["left", "right"] as const).map((side) => (
              <section key={side} className="card padded stack" aria-label={`Answer of the ${side} side`}>
                <FailureNotice failure={tried[side].failure} />
                {tried[side].answer === undefined ? (
                  tried[side].failure === undefined ? (
                    <p className="quiet" role="status">
                      Waiting for the answer…
                    </p>
                  ) : null
                ) : (
                  <PlaygroundResult result={tried[side].answer} />
                )}
              </section>
            ))}
          </div>
          {left === undefined || right === undefined ? null : (
            <section className="card padded stack" aria-label="Difference">
              <h2>Difference</h2>
              {jsonEquals(left.answer, right.answer) ? (
                <p>{left.answer === null ? "Neither side has an answer." : "Both answers are the same."}</p>
              ) : (
                <Diff before={left.answer} after={right.answer} beforeTitle="Left" afterTitle="Right" />
              )}
            </section>
          )}
        </>
      )}
    </>
  )
}

/** A choice of a recent run whose input is taken. */
const RunInput = ({
  onChoose,
  run,
  task
}: {
  readonly task: Task
  readonly run: TraceId | undefined
  readonly onChoose: (run: TraceId | undefined) => void
}) => {
  const result = useAtomValue(inputsAtom(task.id))
  const runs = result._tag === "Success" ? result.value.runs : []
  return (
    <InlineSelect
      label="From a run"
      value={run}
      onChange={onChoose}
      options={[
        [undefined, "none: type it"],
        ...runs.map(
          ({ input_start, trace_id }) =>
            [
              trace_id,
              (input_start === null ? trace_id : summarizeJsonStart(input_start)).slice(0, 60)
            ] as const
        )
      ]}
    />
  )
}

const timeFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" })

/** What answers on one side: the working copy or a release, with a dataset version. */
const SideFields = ({
  data,
  label,
  onData,
  onSource,
  source,
  task
}: {
  readonly task: Task
  readonly label: string
  readonly source: Source
  readonly data: DatasetId | undefined
  readonly onSource: (source: Source) => void
  readonly onData: (data: DatasetId | undefined) => void
}) => {
  const listed = useLoadedItems(releasesAtom(task.id))
  return (
    <fieldset className="field">
      <legend className="legend">{label}</legend>
      <SelectField
        label="Answered by"
        value={source}
        onChange={onSource}
        options={[
          ["draft", "Working copy"],
          ...(source === "draft" || listed.some(({ id }) => id === source)
            ? []
            : [[source, source === task.live_release_id ? "Live release" : `Release ${source}`] as const]),
          ...listed.map(
            ({ created_at, id, number, provider }) =>
              [
                id,
                `Release ${number}, ${id === task.live_release_id ? "live, " : ""}${timeFormat.format(created_at.epochMilliseconds)}${
                  provider.kind === "examples" ? "" : ` · ${provider.model.slice(0, 40)}`
                }`
              ] as const
          )
        ]}
      />
      <DatasetField task={task} isDraft={source === "draft"} data={data} onData={onData} />
    </fieldset>
  )
}

const DatasetField = (choice: ComponentProps<typeof DatasetChoice>) =>
  useCan()("datasets.read") ? <DatasetChoice {...choice} /> : null

const DatasetChoice = ({
  data,
  isDraft,
  onData,
  task
}: {
  readonly task: Task
  readonly isDraft: boolean
  readonly data: DatasetId | undefined
  readonly onData: (data: DatasetId | undefined) => void
}) => {
  const versions = useLoadedItems(datasetsAtom(task.id))
  return (
    <SelectField
      label="Dataset"
      value={data}
      onChange={onData}
      options={[
        [undefined, isDraft ? "Newest version" : "Version of the release"],
        ...versions.map(
          ({ example_count, id, version }) =>
            [id, `Version ${version}, ${example_count.toLocaleString("en")} examples`] as const
        )
      ]}
    />
  )
}
