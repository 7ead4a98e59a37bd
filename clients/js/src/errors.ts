/** A device cannot report, or must not. The text never holds a value. */
export class DeviceError extends Error {
  /** Stable identifier, such as E-DEVICE-EPOCH. */
  readonly code: string;

  constructor(code: string, message: string, remedy = "") {
    super(`${message}.${remedy && " "}${remedy} [${code}]`);
    this.name = "DeviceError";
    this.code = code;
  }
}
