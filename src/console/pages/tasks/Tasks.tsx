import { Link } from "../../app/router.tsx"
import { useCan } from "../../state/session.ts"
import { tasksAtom } from "../../state/tasks.ts"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { Table } from "../../ui/Table.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { RelativeTime } from "../../ui/Time.tsx"

/** What an AI is asked over and over. */
export default function Tasks() {
  const can = useCan()
  return (
    <>
      <PageHeader
        title="Tasks"
        aside={
          can("tasks.write") ? (
            <Link className="button primary" to="/tasks/new">
              New task
            </Link>
          ) : null
        }
      >
        Each with its dataset, its comparisons and what is live.
      </PageHeader>
      <PagedList atom={tasksAtom}>
        {(tasks) =>
          tasks.length === 0 ? (
            <div className="card">
              <EmptyState title="No task yet">
                A task is a question that an AI is asked over and over: the shapes of its inputs and answers,
                and who answers.
              </EmptyState>
            </div>
          ) : (
            <Table columns={["Task", "Answered by", "Dataset", "Made"]}>
              {tasks.map((task) => (
                <tr key={task.id}>
                  <td>
                    <Link to={`/tasks/${task.id}`}>
                      <UntrustedText text={task.name} />
                    </Link>
                    <div className="id quiet">{task.id}</div>
                  </td>
                  <td>
                    {task.provider.kind === "examples" ? (
                      "the nearest example"
                    ) : (
                      <UntrustedText text={task.provider.model} />
                    )}
                  </td>
                  <td>
                    {task.dataset_id === null ? (
                      <span className="quiet">none yet</span>
                    ) : can("datasets.read") ? (
                      <Link to={`/datasets/${task.dataset_id}`}>newest version</Link>
                    ) : (
                      "one or more versions"
                    )}
                  </td>
                  <td>
                    <RelativeTime time={task.created_at} />
                    <div className="quiet small">
                      by <UntrustedText text={task.created_by.name} />
                    </div>
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </PagedList>
    </>
  )
}
