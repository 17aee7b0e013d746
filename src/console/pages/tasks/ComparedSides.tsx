import { Option } from "effect"
import { AsyncResult } from "effect/reactivity"
import { useMemo } from "react"
import type { Comparison } from "../../../domain/tasks/Comparison.ts"
import { configurationChanges } from "../../../domain/tasks/ReleaseChanges.ts"
import type { Release } from "../../../domain/tasks/Task.ts"
import { useAtomValue } from "../../state/atoms.ts"
import { useLoadedItems } from "../../state/pagedAtom.ts"
import { releasesAtom, taskAtom } from "../../state/tasks.ts"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { DatasetLink } from "./DatasetLink.tsx"
import { ChangesView } from "./ReleaseChanges.tsx"

/** The releases that a comparison is about, as far as they are loaded. */
export interface ComparedReleases {
  /** The release that was live when the comparison started. */
  readonly baseline: Release | undefined
  /** The release that is live now. */
  readonly live: Release | undefined
  /** Whether the baseline is still live; undefined: not loaded yet. */
  readonly isCurrent: boolean | undefined
}

/** Finds the releases of a comparison among the task's newest releases. */
export const useComparedReleases = ({ live_release_id, task_id }: Comparison): ComparedReleases => {
  const task = Option.getOrUndefined(AsyncResult.value(useAtomValue(taskAtom(task_id))))
  const releases = useLoadedItems(releasesAtom(task_id))
  return {
    baseline: releases.find(({ id }) => id === live_release_id),
    live: releases.find(({ id }) => id === task?.live_release_id),
    isCurrent: task === undefined ? undefined : task.live_release_id === live_release_id
  }
}

/** A release as its number, its time and who made it live; its ID if it is not loaded. */
export const ReleaseLabel = ({
  id,
  release
}: {
  readonly id: string
  readonly release: Release | undefined
}) =>
  release === undefined ? (
    <span className="id">{id}</span>
  ) : (
    <>
      release {release.number} of <AbsoluteTime time={release.created_at} />, by{" "}
      <UntrustedText text={release.created_by.name} />
    </>
  )

/** The compared sides: the candidate, and how it differs from the release that was live when the comparison started. */
export const ComparedSides = ({
  comparison: { candidate, dataset_id, live_release_id, task_id },
  releases: { baseline, isCurrent }
}: {
  readonly comparison: Comparison
  readonly releases: ComparedReleases
}) => {
  const changes = useMemo(
    () => (baseline === undefined ? undefined : configurationChanges(candidate, baseline)),
    [candidate, baseline]
  )
  return (
    <section className="card padded stack" aria-label="Compared">
      <h2>What was compared</h2>
      <dl className="facts">
        <div>
          <dt>Candidate</dt>
          <dd>
            <UntrustedText text={candidate.provider.model} />
          </dd>
        </div>
        <div>
          <dt>Live then</dt>
          <dd>
            <ReleaseLabel id={live_release_id} release={baseline} />
            {isCurrent === undefined ? null : isCurrent ? ", live now" : ", no longer live"}
          </dd>
        </div>
        <div>
          <dt>Examples of</dt>
          <dd>
            <DatasetLink task={task_id} id={dataset_id} />
          </dd>
        </div>
      </dl>
      {candidate.instructions === "" ? null : (
        <details>
          <summary>Candidate's instructions</summary>
          <p className="prose">
            <UntrustedText text={candidate.instructions} />
          </p>
        </details>
      )}
      {changes === undefined ? null : (
        <details open>
          <summary>Changes from the release that was live</summary>
          <div className="stack">
            <ChangesView changes={changes} task_id={task_id} afterTitle="Candidate" />
          </div>
        </details>
      )}
    </section>
  )
}
