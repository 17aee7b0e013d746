import type { ReleaseId } from "../../../domain/Ids.ts"
import type { Release, Task } from "../../../domain/tasks/Task.ts"
import { Link } from "../../app/router.tsx"
import { refresh } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useCan } from "../../state/session.ts"
import { releasesAtom, taskAtom } from "../../state/tasks.ts"
import { Badge } from "../../ui/Badge.tsx"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { AgreementHistory } from "./AgreementHistory.tsx"
import { CanaryPanel } from "./CanaryPanel.tsx"
import { DatasetLink } from "./DatasetLink.tsx"
import { ReleaseChanges } from "./ReleaseChanges.tsx"
import { ReleaseQuality } from "./ReleaseQuality.tsx"

/** A task's releases, newest first, each with its changes and a button that rolls back to it. */
export const Releases = ({ task }: { readonly task: Task }) => {
  const can = useCan()
  return (
    <div className="stack">
      {task.canary_release_id === null ? null : <CanaryPanel key={task.canary_release_id} task={task} />}
      <AgreementHistory task_id={task.id} />
      {can("feedback.read") ? <ReleaseQuality task_id={task.id} /> : null}
      <PagedList atom={releasesAtom(task.id)}>
        {(releases) => (
          <ol className="cards">
            {releases.map((release) => (
              <li key={release.id} className="card padded stack">
                <div className="change-head">
                  <div>
                    <h2>Release {release.number}</h2>
                    <p className="quiet small">
                      <AbsoluteTime time={release.created_at} />
                    </p>
                  </div>
                  {release.id === task.live_release_id ? (
                    <Badge tone="good">Live</Badge>
                  ) : release.id === task.canary_release_id ? (
                    <Badge tone="wait">Canary</Badge>
                  ) : can("tasks.write") ? (
                    <RollbackButton release={release} />
                  ) : null}
                </div>
                <dl className="facts">
                  <div>
                    <dt>Released by</dt>
                    <dd>
                      <UntrustedText text={release.created_by.name} />
                    </dd>
                  </div>
                  <div>
                    <dt>Provider</dt>
                    <dd>
                      {release.provider.kind === "examples" ? (
                        "Nearest example"
                      ) : (
                        <UntrustedText text={release.provider.model} />
                      )}
                    </dd>
                  </div>
                  <div>
                    <dt>Dataset</dt>
                    <dd>
                      {release.dataset_id === null ? (
                        "none"
                      ) : (
                        <DatasetLink task={task.id} id={release.dataset_id} />
                      )}
                    </dd>
                  </div>
                  <div>
                    <dt>Comparison</dt>
                    <dd>
                      {release.restored_release_id !== null ? (
                        `none (rollback to ${numberOf(releases, release.restored_release_id)})`
                      ) : release.comparison_id === null ? (
                        "none (first release)"
                      ) : (
                        <Link to={`/comparisons/${release.comparison_id}`}>View comparison</Link>
                      )}
                    </dd>
                  </div>
                </dl>
                {release.instructions === "" ? null : (
                  <details>
                    <summary>Instructions</summary>
                    <p className="prose">
                      <UntrustedText text={release.instructions} />
                    </p>
                  </details>
                )}
                <ReleaseChanges release={release} releases={releases} />
              </li>
            ))}
          </ol>
        )}
      </PagedList>
    </div>
  )
}

/** The number of a release; one that is further down in the list is not loaded yet. */
const numberOf = (releases: ReadonlyArray<Release>, id: ReleaseId): string => {
  const found = releases.find((release) => release.id === id)
  return found === undefined ? "an earlier release" : `release ${found.number}`
}

/** The button that makes an earlier release live again. */
const RollbackButton = ({ release: { id, number, task_id } }: { readonly release: Release }) => (
  <ConfirmButton
    kind="plain"
    label="Roll back to this release"
    title={`Roll back to release ${number}?`}
    confirmLabel="Roll back"
    act={() => apiClient.releases.create({ params: { id: task_id }, payload: { release_id: id } })}
    onDone={() => {
      refresh(taskAtom(task_id))
      refresh(releasesAtom(task_id))
      showToast(`Rolled back to release ${number}`)
    }}
  >
    <p>
      New runs will use the instructions, provider and dataset version of this release. The working copy does
      not change.
    </p>
  </ConfirmButton>
)
