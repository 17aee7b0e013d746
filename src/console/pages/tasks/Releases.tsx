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
import { DatasetLink } from "./DatasetLink.tsx"

/** What a task's runs were answered by, newest first, each with the way back to it. */
export const Releases = ({ task }: { readonly task: Task }) => {
  const can = useCan()
  return (
    <PagedList atom={releasesAtom(task.id)}>
      {(releases) => (
        <ol className="cards">
          {releases.map((release) => (
            <li key={release.id} className="card padded stack">
              <div className="change-head">
                <h2>
                  <AbsoluteTime time={release.created_at} />
                </h2>
                {release.id === task.live_release_id ? (
                  <Badge tone="good">live</Badge>
                ) : can("tasks.write") ? (
                  <Restore release={release} />
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
                  <dt>Answered by</dt>
                  <dd>
                    {release.provider.kind === "examples" ? (
                      "the nearest example"
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
                  <dt>Compared in</dt>
                  <dd>
                    {release.restored_release_id !== null ? (
                      "none: it is an earlier one again"
                    ) : release.comparison_id === null ? (
                      "it is the first"
                    ) : (
                      <Link to={`/comparisons/${release.comparison_id}`}>the comparison before it</Link>
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
            </li>
          ))}
        </ol>
      )}
    </PagedList>
  )
}

/** The way back to a release. */
const Restore = ({ release: { id, task_id } }: { readonly release: Release }) => (
  <ConfirmButton
    kind="plain"
    label="Make live again"
    title="Make this release live again?"
    verb="Release it"
    act={() => apiClient.releases.create({ params: { task_id }, payload: { release_id: id } })}
    onDone={() => {
      refresh(taskAtom(task_id))
      refresh(releasesAtom(task_id))
      showToast("The earlier release is live again")
    }}
  >
    <p>
      From now on runs are answered as they were by it: with its instructions, its provider and its version of
      the dataset. The working copy stays as it is.
    </p>
  </ConfirmButton>
)
