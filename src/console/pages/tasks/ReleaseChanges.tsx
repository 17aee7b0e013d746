import { useState } from "react"
import type { ReleaseChanges as Changes } from "../../../domain/tasks/ReleaseChanges.ts"
import type { Release } from "../../../domain/tasks/Task.ts"
import { releaseChangesAtom } from "../../state/tasks.ts"
import { useCan } from "../../state/session.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { LineChanges } from "../../ui/code/LineChanges.tsx"
import { Diff } from "../../ui/Diff.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { DatasetDifferences } from "./DatasetDifferences.tsx"
import { DatasetLink } from "./DatasetLink.tsx"

interface Props {
  readonly release: Release
  /** The task's releases loaded so far. */
  readonly releases: ReadonlyArray<Release>
}

/** The changes of a release since the one that was live before. Loaded when it is opened. */
export const ReleaseChanges = (props: Props) => {
  const [isOpen, setOpen] = useState(false)
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>Changes</summary>
      {isOpen ? <LoadedChanges {...props} /> : null}
    </details>
  )
}

const LoadedChanges = ({ release, releases }: Props) => {
  const atom = releaseChangesAtom(release.id)
  return (
    <AsyncContent atom={atom}>
      {(changes) => (
        <div className="stack">
          <p className="quiet small">
            {changes.since === null ? (
              "The task's first release: everything in it is new."
            ) : (
              <>
                Compared with the release before, <ReleaseName id={changes.since} releases={releases} />.
              </>
            )}
          </p>
          <ChangesView changes={changes} task_id={release.task_id} afterTitle="This release" />
        </div>
      )}
    </AsyncContent>
  )
}

/** What changed of what answers runs: instructions, settings and dataset version. */
export const ChangesView = ({
  afterTitle,
  changes: { dataset, instructions, provider },
  task_id
}: {
  readonly changes: Pick<Changes, "dataset" | "instructions" | "provider">
  readonly task_id: Release["task_id"]
  /** Names the newer side. */
  readonly afterTitle: string
}) => (
  <>
    <section className="stack" aria-label="Changes of the instructions">
      <h3>Instructions</h3>
      <LineChanges changes={instructions} />
    </section>
    <section className="stack" aria-label="Changes of the settings">
      <h3>Settings</h3>
      {provider.length === 0 ? (
        <p>No changes.</p>
      ) : (
        <Diff
          before={settings(provider, "before")}
          after={settings(provider, "after")}
          beforeTitle="Before"
          afterTitle={afterTitle}
        />
      )}
    </section>
    <section className="stack" aria-label="Changes of the dataset">
      <h3>Dataset</h3>
      {dataset.before === dataset.after ? (
        <p>No changes.</p>
      ) : (
        <p>
          Before: <DatasetName task={task_id} id={dataset.before} />. {afterTitle}:{" "}
          <DatasetName task={task_id} id={dataset.after} />.
        </p>
      )}
      <ChangedExamples {...dataset} />
    </section>
  </>
)

/** The examples that differ, loaded when they are opened. A version that is older than the one before has none to show. */
const ChangedExamples = ({ after, before }: Changes["dataset"]) => {
  const can = useCan()
  const [isOpen, setOpen] = useState(false)
  // IDs sort by time.
  if (before === null || after === null || after <= before || !can("datasets.read")) return null
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>Examples that changed</summary>
      {isOpen ? <DatasetDifferences id={after} since={before} /> : null}
    </details>
  )
}

/** A release's time, or its ID if its page of the list is not loaded. */
const ReleaseName = ({ id, releases }: { readonly id: string; readonly releases: Props["releases"] }) => {
  const found = releases.find((release) => release.id === id)
  return found === undefined ? <span className="id">{id}</span> : <AbsoluteTime time={found.created_at} />
}

const DatasetName = ({
  id,
  task
}: {
  readonly id: Changes["dataset"]["after"]
  readonly task: Release["task_id"]
}) => (id === null ? "none" : <DatasetLink task={task} id={id} />)

/** Settings of one side by JSON Pointer. A setting without a value is absent. */
const settings = (changes: Changes["provider"], side: "before" | "after") =>
  Object.fromEntries(
    changes.flatMap((change) => (change[side] === null ? [] : [[change.setting, change[side]] as const]))
  )
