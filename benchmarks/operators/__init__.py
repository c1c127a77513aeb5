"""Random one-operator models of every TFLite operator, and their comparison with TensorFlow Lite
Micro."""
