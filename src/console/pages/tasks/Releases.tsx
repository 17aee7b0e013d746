import type { Task } from "../../../domain/Task.ts"
import { Link } from "../../app/router.tsx"
import { releasesAtom } from "../../state/tasks.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Pages } from "../../ui/Pages.tsx"
import { Safe } from "../../ui/Safe.tsx"
import { At } from "../../ui/Time.tsx"
import { DatasetLink } from "./DatasetLink.tsx"

/** What a task's runs were answered by, newest first. */
export const Releases = ({ task }: { readonly task: Task }) => (
  <Pages atom={releasesAtom(task.id)}>
    {(releases) => (
      <ol className="cards">
        {releases.map((release) => (
          <li key={release.id} className="card padded stack">
            <div className="change-head">
              <h2>
                <At time={release.created_at} />
              </h2>
              {release.id === task.live_release_id ? <Badge tone="good">live</Badge> : null}
            </div>
            <dl className="facts">
              <div>
                <dt>Released by</dt>
                <dd>
                  <Safe text={release.created_by.name} />
                </dd>
              </div>
              <div>
                <dt>Answered by</dt>
                <dd>
                  {release.provider.kind === "examples" ? (
                    "the nearest example"
                  ) : (
                    <Safe text={release.provider.model} />
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
                  {release.comparison_id === null ? (
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
                  <Safe text={release.instructions} />
                </p>
              </details>
            )}
          </li>
        ))}
      </ol>
    )}
  </Pages>
)
