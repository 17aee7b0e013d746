import type { ReactNode } from "react"
import { type Failure } from "./Failure.ts"
import { UntrustedText } from "./UntrustedText.tsx"

/** An error message, shown where the failed request belongs. */
export const FailureNotice = ({
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
          <UntrustedText text={failure.detail} />
        </p>
      )}
      {failure.errors.length === 0 ? null : (
        <ul>
          {failure.errors.map(({ detail, pointer }) => (
            <li key={pointer + detail}>
              <code>{pointer}</code> <UntrustedText text={detail} />
            </li>
          ))}
        </ul>
      )}
      {failure.requestId === undefined || failure.code !== "INTERNAL_ERROR" ? null : (
        <p className="quiet">Request id: {failure.requestId}</p>
      )}
      {children === undefined ? null : <div className="notice-actions">{children}</div>}
    </div>
  )
