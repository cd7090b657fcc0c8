// Made from src/domain/transfer-errors.ts by `npm run console-api`.

export const ERROR_ADVICE = {
  auth_failed: "Check the endpoint's user name and its password or key, that the key stands in the server's authorized_keys, and that the account is not locked; then replace the endpoint's credentials.",
  host_key_mismatch: "Compare the server's host key with the one that its administrator names, then accept it with `waybill endpoints test NAME --accept-host-key`. No password was sent.",
  tls_error: "Check the server's certificate, its name and its validity, or give the endpoint the CA that signed it (`ca_pem`). An SFTP server must enable one of the algorithms that the message names.",
  connection_failed: "Check the host name and port of the endpoint, that the server runs, and that no firewall stands between.",
  timeout: "The server took too long to answer. Check its load and the network.",
  stalled: "No byte moved for a minute. Check the network and the load of both servers.",
  source_not_found: "Check the path of the source, letter case included. Retry the transfer when the file is there, or create one with the right path.",
  source_changed: "The source was written to while it was read. Let its writer finish (or write elsewhere and rename), then retry the transfer.",
  source_replaced: "The flow had listed another version of the file. It takes the new one when that is ready, so nothing is left to do.",
  destination_not_found: "Create the destination's bucket or container, or correct the endpoint's configuration.",
  permission_denied: "Give the endpoint's user the right to read the source or to write the destination.",
  disk_full: "Make room on the destination, or raise the quota of its user.",
  file_too_large: "The destination does not take a file of this size. Split the file, or choose another destination.",
  destination_exists: "The endpoint does not overwrite. Remove the file there, choose another name, or set `overwrite` on the endpoint.",
  checksum_mismatch: "If the transfer has `expected_sha256`, the source is another file: ask its sender. Otherwise the destination has other bytes than those that were read: check the disks and memory of both servers, then retry.",
  size_mismatch: "The file at the destination has another size than what was read. Check what else writes there.",
  source_endpoint_not_configured: "Configure an endpoint for the source: a host that no endpoint names is never dialled.",
  endpoint_removed: "The endpoint was removed. Configure it again, then retry the transfer.",
  aborted_by_operator: "An operator ended this transfer. Retry it if it is still wanted.",
  internal_error: "This is a fault of the service. Tell its operator the id of the transfer.",
};
