import { Link } from "../../app/router.tsx"
import { refresh } from "../../state/atoms.ts"
import { useCan } from "../../state/session.ts"
import { tasksAtom } from "../../state/tasks.ts"
import { FirstRecord } from "../../ui/FirstRecord.tsx"
import { Table } from "../../ui/Table.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { RelativeTime } from "../../ui/Time.tsx"

/** The tasks of the organization. */
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
        Tasks with their providers and datasets.
      </PageHeader>
      <PagedList atom={tasksAtom} itemId={(task) => task.id}>
        {(tasks) =>
          tasks.length === 0 ? (
            <div className="card">
              <FirstRecord
                of={({ firstTask }, origin) => firstTask(origin)}
                look={() => refresh(tasksAtom)}
              />
            </div>
          ) : (
            <Table columns={["Task", "Provider", "Dataset", "Created"]}>
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
                      "Nearest example"
                    ) : (
                      <UntrustedText text={task.provider.model} />
                    )}
                  </td>
                  <td>
                    {task.dataset_id === null ? (
                      <span className="quiet">none</span>
                    ) : can("datasets.read") ? (
                      <Link to={`/datasets/${task.dataset_id}`}>Newest version</Link>
                    ) : (
                      "available"
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
