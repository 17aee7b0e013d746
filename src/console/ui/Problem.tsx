import type { ReactNode } from "react"
import { type Failure } from "./failure.ts"
import { Safe } from "./Safe.tsx"

/** A failure, said where it happened. */
export const Problem = ({
  failure,
  children
}: {
  readonly failure: Failure | undefined
  readonly children?: ReactNode
}) =>
  failure === undefined ? null : (
    <div className="notice bad" role="alert">
      <p className="notice-title">{failure.title}</p>
      {failure.detail === "" ? null : (
        <p>
          <Safe text={failure.detail} />
        </p>
      )}
      {failure.errors.length === 0 ? null : (
        <ul>
          {failure.errors.map(({ detail, pointer }) => (
            <li key={pointer + detail}>
              <code>{pointer}</code> <Safe text={detail} />
            </li>
          ))}
        </ul>
      )}
      {failure.requestId === undefined || failure.code !== "INTERNAL_ERROR" ? null : (
        <p className="quiet">Request {failure.requestId}</p>
      )}
      {children === undefined ? null : <div className="notice-actions">{children}</div>}
    </div>
  )
