// Uses the client that NSwag makes. Prints what it got as JSON.
using System.Net.Http.Headers;
using System.Text.Json;
using System.Text.RegularExpressions;
using Waybill;

using var http = new HttpClient { BaseAddress = new Uri(args[0]) };
http.DefaultRequestHeaders.Authorization = new AuthenticationHeaderValue("Bearer", args[1]);
var client = new WaybillClient(http) { BaseUrl = args[0] };

foreach (var pattern in JsonSerializer.Deserialize<string[]>(File.ReadAllText(args[2]))!) _ = new Regex(pattern);

var created = await client.CreateTransferAsync(
    new TransferRequest { Source_uri = "s3://archive/a.csv", Destination_uri = "s3://archive/in/", Metadata = null },
    idempotency_Key: "nswag");
var list = await client.ListTransfersAsync(status: TransferStatus.Pending, limit: 10);
var cancelled = await client.CancelTransferAsync(created.Id);
var detail = await client.GetTransferAsync(created.Id);
long? size = detail.Size_bytes;
var webhook = await client.RegisterWebhookAsync(new WebhookRequest
{
    Url = "https://receiver.example.com/hook",
    Events = [WebhookEventType.Transfer_completed],
});
var changed = await client.UpdateWebhookAsync(
    new WebhookChanges { Events = [WebhookEventType.Transfer_failed] }, webhook.Id);
var batch = await client.CreateBatchAsync(new BatchRequest
{
    Items = [new BatchItem { Source_uri = "s3://archive/a.csv", Destination_uri = "s3://archive/in/" }],
});
var inBatch = await client.GetTransferAsync(batch.Transfer_ids!.First());
var flow = await client.CreateFlowAsync(new FlowRequest
{
    Name = "nswag",
    Source = new FlowSource { Uri = "s3://archive/out/" },
    Destination_uri = "s3://archive/in/",
    Enabled = false,
});
var run = await client.RunFlowAsync(flow.Id);
var removed = 204;
try { await client.RemoveWebhookAsync(webhook.Id); }
catch (ApiException error) { removed = error.StatusCode; }

// Of the document in which each protocol inherits from `Endpoint`.
var inherited = new Inherited.WaybillClient(http) { BaseUrl = args[0] };
var endpoints = (await inherited.ListEndpointsAsync()).Data;

Problem? problem = null;
try
{
    await client.CreateTransferAsync(
        new TransferRequest { Source_uri = "sftp://nowhere/a.csv", Destination_uri = "sftp://nowhere/b.csv" });
}
catch (ApiException<Problem> error) { problem = error.Result; }

Console.WriteLine(JsonSerializer.Serialize(new
{
    created = WireName(created.Status),
    listed = list.Data.Any(item => item.Id == created.Id),
    cancelled = WireName(cancelled.Status),
    detail = new object?[] { WireName(detail.Status), size, detail.Error },
    secret = webhook.Secret?[..6],
    enabled = changed.Enabled,
    batch = new object?[] { WireName(inBatch.Priority), inBatch.Verify },
    removed,
    run = new[] { run.Id?[..4], run.Status },
    endpoints = endpoints.OfType<Inherited.S3Endpoint>().Select(endpoint => endpoint.Bucket),
    rejected = new object?[] { problem?.Status, WireName(problem?.Code) },
}));

// Newtonsoft writes an enum by its name in the API.
static string WireName(object? value) =>
    Newtonsoft.Json.JsonConvert.SerializeObject(value, new Newtonsoft.Json.Converters.StringEnumConverter()).Trim('"');
